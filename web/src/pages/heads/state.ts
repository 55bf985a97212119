// The selection on the page of all heads. It is the link to the page and the browser's history.
import type { HeadStatistics } from "../../core/contract";

export type Role = HeadStatistics["role"];
export const ROLES: Role[] = ["previous", "self", "first", "content", "uniform", "mixed"];
export const [COLDEST, HOTTEST] = [0.1, 10]; // temperatures

/** One number of a head's queries or keys that was overwritten. */
export interface Edit {
  layer: number;
  head: number;
  of: "q" | "k";
  token: number;
  feature: number;
  value: number;
}

export interface HeadsState {
  open?: [number, number]; // layer and head
  row?: number; // the query token; by default one that may attend to many
  column?: number; // the key token; by default the one with the largest weight
  by: "query" | "key"; // whether the weights of one query (a row) or of one key (a column) are shown
  show: "weights" | "change";
  side: "this" | "other" | "difference"; // of two models, which one, or their difference
  roles: Role[]; // only heads of these roles are lit; none: all
  causal?: boolean; // as the model has it, unless set
  mask: boolean; // the model's own mask
  bias: boolean;
  temperature: number;
  align: number[]; // the alignment shown: [] the mean of all layers, [layer] the mean of its heads, [layer, head]
  word?: number; // the target word whose links are shown
  whole: boolean; // subwords are merged into words
  rows: "output" | "input"; // whether a target row is labelled with the word that it predicts, or that it reads
  hidden: Record<number, number[]>; // masked tokens by the number of their line
  edits: Edit[];
}

export const initial = (): HeadsState => ({
  by: "query",
  show: "weights",
  side: "this",
  roles: [],
  mask: true,
  bias: true,
  temperature: 1,
  align: [],
  whole: false,
  rows: "output",
  hidden: {},
  edits: [],
});

export function toHash(state: HeadsState): string {
  const parts = new URLSearchParams();
  if (state.open) parts.set("head", state.open.join("."));
  if (state.row !== undefined) parts.set("query", String(state.row));
  if (state.column !== undefined) parts.set("key", String(state.column));
  if (state.by !== "query") parts.set("by", state.by);
  if (state.show !== "weights") parts.set("show", state.show);
  if (state.side !== "this") parts.set("side", state.side);
  if (state.roles.length) parts.set("roles", state.roles.join("."));
  if (state.causal !== undefined) parts.set("causal", state.causal ? "on" : "off");
  if (!state.mask) parts.set("mask", "off");
  if (!state.bias) parts.set("bias", "off");
  if (state.temperature !== 1) parts.set("temperature", String(state.temperature));
  if (state.align.length) parts.set("align", state.align.join("."));
  if (state.word !== undefined) parts.set("word", String(state.word));
  if (state.whole) parts.set("whole", "on");
  if (state.rows !== "output") parts.set("rows", state.rows);
  for (const [line, tokens] of Object.entries(state.hidden)) {
    if (tokens.length) parts.append("hide", `${line}_${tokens.join(".")}`);
  }
  for (const { of, layer, head, token, feature, value } of state.edits) {
    parts.append(of, `${[layer, head, token, feature].join(".")}_${value}`);
  }
  return parts.toString();
}

/** The state that a fragment describes; what is invalid is left out. heads: how many each layer has. */
export function fromHash(hash: string, heads: number[]): HeadsState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const known = ([layer, head]: number[]) => layer in heads && head >= 0 && head < heads[layer];
  const open = parseIndices(parts.get("head"), 2);
  const temperature = Number(parts.get("temperature") ?? 1);
  const hidden: Record<number, number[]> = {};
  for (const text of parts.getAll("hide")) {
    const [line, tokens] = text.split("_").map((part) => parseIndices(part));
    if (line?.length === 1 && tokens) hidden[line[0]] = [...new Set(tokens)].sort((a, b) => a - b);
  }
  const edits: Edit[] = [];
  for (const of of ["q", "k"] as const) {
    for (const text of parts.getAll(of)) {
      const [where, number] = text.split("_");
      const [at, value] = [parseIndices(where, 4), Number(number || "x")];
      if (at && known(at) && Number.isFinite(value))
        edits.push({ layer: at[0], head: at[1], of, token: at[2], feature: at[3], value });
    }
  }
  const causal = parts.get("causal");
  const align = parseIndices(parts.get("align")) ?? [];
  return {
    open: open && known(open) ? [open[0], open[1]] : undefined,
    row: parseIndices(parts.get("query"), 1)?.[0],
    column: parseIndices(parts.get("key"), 1)?.[0],
    by: parts.get("by") === "key" ? "key" : "query",
    show: parts.get("show") === "change" ? "change" : "weights",
    side: parts.get("side") === "other" ? "other" : parts.get("side") === "difference" ? "difference" : "this",
    roles: ROLES.filter((role) => parts.get("roles")?.split(".").includes(role)),
    causal: causal === "on" ? true : causal === "off" ? false : undefined,
    mask: parts.get("mask") !== "off",
    bias: parts.get("bias") !== "off",
    align: align.length === 1 ? (align[0] in heads ? align : []) : align.length === 2 && known(align) ? align : [],
    word: parseIndices(parts.get("word"), 1)?.[0],
    whole: parts.get("whole") === "on",
    rows: parts.get("rows") === "input" ? "input" : "output",
    temperature: temperature >= COLDEST && temperature <= HOTTEST ? temperature : 1,
    hidden,
    edits,
  };
}

/** "3.1" as [3, 1]; undefined where it is something else. */
function parseIndices(text: string | null | undefined, count?: number): number[] | undefined {
  const found = (text ?? "").split(".");
  if (!found.every((one) => /^(0|[1-9]\d{0,6})$/.test(one)) || (count && found.length !== count)) return undefined;
  return found.map(Number);
}

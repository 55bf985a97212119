// What a person has chosen on the page of all heads. It is the link to the page, and what going back brings back.
import type { Head } from "../contract";

export type Role = Head["role"];
export const ROLES: Role[] = ["previous", "self", "first", "content", "even", "mixed"];
export const [COLDEST, HOTTEST] = [0.1, 10]; // temperatures

/** One number of a head's queries or keys that a person wrote. */
export interface Edit {
  layer: number;
  head: number;
  of: "q" | "k";
  token: number;
  feature: number;
  value: number;
}

export interface HeadsState {
  open?: [number, number]; // layer and head; numbers count from 0 here, from 1 in the link
  row?: number; // who asks; unless said, a token that sees much
  column?: number; // who answers; unless said, who is looked at most
  by: "asks" | "answers"; // whose weights are shown: of who asks, or of who answers
  show: "weights" | "change";
  side: "this" | "other" | "apart"; // of two models, which one, or the difference
  roles: Role[]; // only these are lit; none: all
  causal?: boolean; // as the model has it, unless said
  mask: boolean; // the model's own list of what may be seen
  bias: boolean;
  temperature: number;
  align: number[]; // whose links are shown between two lines of words: none: the mean of all layers; a layer's mean; or one head
  word?: number; // the target word whose links are shown
  whole: boolean; // pieces of words are put together
  read: boolean; // a target row stands for the word that it reads, not for the one that is said after it
  hidden: Record<number, number[]>; // tokens by the number of their line
  edits: Edit[];
}

export const initial = (): HeadsState => ({
  by: "asks",
  show: "weights",
  side: "this",
  roles: [],
  mask: true,
  bias: true,
  temperature: 1,
  align: [],
  whole: false,
  read: false,
  hidden: {},
  edits: [],
});

export function toHash(state: HeadsState): string {
  const parts = new URLSearchParams();
  const from1 = (...numbers: number[]) => numbers.map((i) => i + 1).join(".");
  if (state.open) parts.set("head", from1(...state.open));
  if (state.row !== undefined) parts.set("asks", from1(state.row));
  if (state.column !== undefined) parts.set("answers", from1(state.column));
  if (state.by !== "asks") parts.set("by", state.by);
  if (state.show !== "weights") parts.set("show", state.show);
  if (state.side !== "this") parts.set("side", state.side);
  if (state.roles.length) parts.set("roles", state.roles.join("."));
  if (state.causal !== undefined) parts.set("causal", state.causal ? "on" : "off");
  if (!state.mask) parts.set("mask", "off");
  if (!state.bias) parts.set("bias", "off");
  if (state.temperature !== 1) parts.set("temperature", String(state.temperature));
  if (state.align.length) parts.set("align", from1(...state.align));
  if (state.word !== undefined) parts.set("word", from1(state.word));
  if (state.whole) parts.set("whole", "on");
  if (state.read) parts.set("read", "on");
  for (const [line, tokens] of Object.entries(state.hidden)) {
    if (tokens.length) parts.append("hide", `${from1(Number(line))}_${from1(...tokens)}`);
  }
  for (const { of, layer, head, token, feature, value } of state.edits) {
    parts.append(of, `${from1(layer, head, token, feature)}_${value}`);
  }
  return parts.toString();
}

/** The state that a fragment describes; what makes no sense is left out. heads: how many each layer has. */
export function fromHash(hash: string, heads: number[]): HeadsState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const known = ([layer, head]: number[]) => layer in heads && head >= 0 && head < heads[layer];
  const open = counted(parts.get("head"), 2);
  const temperature = Number(parts.get("temperature") ?? 1);
  const hidden: Record<number, number[]> = {};
  for (const text of parts.getAll("hide")) {
    const [line, tokens] = text.split("_").map((part) => counted(part));
    if (line?.length === 1 && tokens) hidden[line[0]] = [...new Set(tokens)].sort((a, b) => a - b);
  }
  const edits: Edit[] = [];
  for (const of of ["q", "k"] as const) {
    for (const text of parts.getAll(of)) {
      const [where, number] = text.split("_");
      const [at, value] = [counted(where, 4), Number(number || "x")];
      if (at && known(at) && Number.isFinite(value))
        edits.push({ layer: at[0], head: at[1], of, token: at[2], feature: at[3], value });
    }
  }
  const causal = parts.get("causal");
  const align = counted(parts.get("align")) ?? [];
  return {
    open: open && known(open) ? [open[0], open[1]] : undefined,
    row: counted(parts.get("asks"), 1)?.[0],
    column: counted(parts.get("answers"), 1)?.[0],
    by: parts.get("by") === "answers" ? "answers" : "asks",
    show: parts.get("show") === "change" ? "change" : "weights",
    side: parts.get("side") === "other" ? "other" : parts.get("side") === "apart" ? "apart" : "this",
    roles: ROLES.filter((role) => parts.get("roles")?.split(".").includes(role)),
    causal: causal === "on" ? true : causal === "off" ? false : undefined,
    mask: parts.get("mask") !== "off",
    bias: parts.get("bias") !== "off",
    align: align.length === 1 ? (align[0] in heads ? align : []) : align.length === 2 && known(align) ? align : [],
    word: counted(parts.get("word"), 1)?.[0],
    whole: parts.get("whole") === "on",
    read: parts.get("read") === "on",
    temperature: temperature >= COLDEST && temperature <= HOTTEST ? temperature : 1,
    hidden,
    edits,
  };
}

/** "3.1" as [2, 0], nothing where it is something else. */
function counted(text: string | null | undefined, count?: number): number[] | undefined {
  const found = (text ?? "").split(".");
  if (!found.every((one) => /^[1-9]\d{0,6}$/.test(one)) || (count && found.length !== count)) return undefined;
  return found.map((one) => Number(one) - 1);
}

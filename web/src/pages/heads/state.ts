// The selection on the page of all heads.
import type { HeadStatistics } from "../../core/contract";
import {
  choice,
  type Code,
  field,
  type Field,
  flag,
  list,
  only,
  optional,
  pair,
  real,
  schema,
  type Schema,
  valid,
  whole,
} from "../../core/state";

import { type Change, changeCode } from "./model_change";

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
  changes: Change[]; // of the model, which answers
  second: string; // the second input, whose values replace those of the first; empty: none
  after?: number; // the token whose next token is predicted; by default the last
  answer?: number; // by which heads are ranked; by default the most probable one
  rank?: (typeof RANKS)[number]; // what is done to each head in a ranking
}

export const RANKS = ["zero", "mean", "patch"] as const;
const SECOND = 4000; // characters
const index = whole(0, 1e7 - 1);

/** heads: how many each layer has. */
export function stateOf(heads: number[]): Schema<HeadsState> {
  const known = ([layer, head]: number[]) => layer in heads && head < heads[layer];
  const align = ({ length, 0: layer, 1: head }: number[]) => !length || (length === 1 ? layer in heads : length === 2 && known([layer, head])); // prettier-ignore
  return schema<HeadsState>({
    open: optional(only(pair(index), known), { key: "head" }),
    row: optional(index, { key: "query", history: "none" }),
    column: optional(index, { key: "key", history: "none" }),
    by: field(choice(["query", "key"]), "query"),
    show: field(choice(["weights", "change"]), "weights"),
    side: field(choice(["this", "other", "difference"]), "this"),
    roles: field(valid(choice(ROLES)), [], { history: "none" }),
    causal: optional(flag()),
    mask: field(flag(), true),
    bias: field(flag(), true),
    temperature: field(real(COLDEST, HOTTEST), 1),
    align: field(only(list(index), align), []),
    word: optional(index, { history: "none" }),
    whole: field(flag(), false),
    rows: field(choice(["output", "input"]), "output"),
    hidden,
    edits: edits((edit) => known([edit.layer, edit.head])),
    changes: changes(changeCode(heads)),
    second: field({ write: String, read: (text) => (text.length <= SECOND ? text : undefined) }, ""),
    after: optional(index),
    answer: optional(index, { history: "none" }),
    rank: optional(choice(RANKS), { history: "back" }),
  });
}

/** change=zero_output_2.3, once for each. */
const changes = (code: Code<Change>): Field<Change[], HeadsState> => ({
  history: "undo",
  initial: () => [],
  write(value, link) {
    for (const one of value) link.append("change", code.write(one));
  },
  read: (link) => link.getAll("change").flatMap((text) => code.read(text) ?? []),
});

/** hide=0_3.5: tokens 3 and 5 of line 0. */
const hidden: Field<HeadsState["hidden"], HeadsState> = {
  history: "undo",
  initial: () => ({}),
  write(value, link) {
    for (const [line, tokens] of Object.entries(value)) if (tokens.length) link.append("hide", `${line}_${tokens.join(".")}`);
  },
  read(link) {
    const found: HeadsState["hidden"] = {};
    for (const text of link.getAll("hide")) {
      const [line, tokens] = text.split("_").map((part) => list(index).read(part));
      if (line?.length === 1 && tokens?.length) found[line[0]] = [...new Set(tokens)].sort((a, b) => a - b);
    }
    return found;
  },
};

/** q=1.0.3.2_0.5: layer 1, head 0, token 3, feature 2 of the queries is 0.5; k is of the keys. */
const edits = (known: (edit: Edit) => boolean): Field<Edit[], HeadsState> => ({
  history: "undo",
  initial: () => [],
  write(value, link) {
    for (const { of, layer, head, token, feature, value: number } of value)
      link.append(of, `${[layer, head, token, feature].join(".")}_${number}`);
  },
  read: (link) =>
    [...link].flatMap(([of, text]): Edit[] => {
      if (of !== "q" && of !== "k") return [];
      const [where, number] = text.split("_");
      const [at, value] = [list(index).read(where), Number(number || "x")];
      if (at?.length !== 4 || !Number.isFinite(value)) return [];
      const edit: Edit = { layer: at[0], head: at[1], of, token: at[2], feature: at[3], value };
      return known(edit) ? [edit] : [];
    }),
});

// Generated from contract/schema.json by `npm run contract`. Do not edit.

/**
 * A page's content.
 *
 *     scheme    the one to begin with; versus, the one beside it
 *     given     numbers of words that are not spelled from their letters
 *     traced    how many words the programs were traced with
 *     limit     how many words the page takes
 *     places    how far the sentence can slide: rows of a learned table
 *     pool      arrays that programs share, so that an edited weight is edited in all of them
 *     tour      named programs that are not schemes of the model (clocks, the rotation that carries p_i to p_i+k)
 *     paragraph words in which the sentence slides
 */
export interface Explorable {
  version?: number;
  title: string;
  words: string[];
  given: {
    [k: string]: number[];
  };
  places: number;
  limit: number;
  traced: number;
  width: number;
  heads: number;
  seed: number;
  scheme: string;
  versus: string;
  causal: boolean;
  schemes: Variant[];
  programs: Program[];
  tour: {
    [k: string]: Trace;
  };
  pool: {
    [k: string]: Array;
  };
  examples: Example[];
  paragraph: string[];
  facts: Fact[];
  notes?: string[];
}
/**
 * A choice that a page offers, e.g. a position scheme.
 *
 *     group   the heading under which a list shows it, e.g. where it acts; empty for none
 *     switch  the name of the scheme that this variant breaks on purpose, for teaching; empty for a real scheme
 */
export interface Variant {
  name: string;
  title: string;
  summary: string;
  group?: string;
  switch?: string;
}
/**
 * One traced program: for which scheme, in which setting, with what it claims.
 *
 *     setting  "plain", "causal" (later words hidden), "padded" (empty places hidden), "class" (a class token in front), and
 *              the last two with "-causal"
 *     roles    ids of the values that views ask for: input, scores, weights, mixed, output and the read-outs
 */
export interface Program {
  scheme: string;
  setting: string;
  trace: Trace;
  claims: Claim[];
  roles?: {
    [k: string]: string;
  };
}
/**
 * A program with its numbers: leaves first, then steps in the order in which they happened.
 *
 *     outputs ids of what the model returned
 */
export interface Trace {
  version?: number;
  title?: string;
  leaves: Leaf[];
  steps: Step[];
  outputs: string[];
}
/**
 * Numbers that were given to the program.
 *
 *     kind    content, document and valid move with the words; coordinate and order belong to the places; weight is the
 *             model's own, constant follows from its settings; opaque was made by code that the trace did not see
 *     array   the numbers, or nothing where `pool` names an entry in the pool of the explorable around it
 */
export interface Leaf {
  id: string;
  symbol: string;
  label: string;
  axes: string[];
  kind: "constant" | "content" | "coordinate" | "document" | "opaque" | "order" | "valid" | "weight";
  where?: string;
  array?: Array | null;
  pool?: string | null;
}
/**
 * Numbers of one dtype in row-major order.
 *
 *     data    the numbers themselves, or base64 of their little-endian bytes (float64 8, float32 4, int64 8, bool 1)
 */
export interface Array {
  shape: number[];
  dtype: "bool" | "float32" | "float64" | "int64";
  data: number[] | string;
}
/**
 * Numbers that an operation made from others.
 *
 *     op      a name in the closed list of operations (`equiscope.trace.ops.OPERATIONS`)
 *     inputs  ids of leaves and earlier steps
 *     where   the module it happened in, e.g. "blocks.0.attention"
 *     array   the numbers, kept where a test wants them; a page computes them again
 */
export interface Step {
  id: string;
  symbol: string;
  label: string;
  axes: string[];
  op: string;
  inputs: string[];
  params?: {
    [k: string]: boolean | number | string | number[];
  };
  where?: string;
  array?: Array | null;
}
/**
 * What a built model says about one action, and the part that decides it.
 *
 *     holds  True: every part promises it. False: a part notices the action; another part may still hide that again
 */
export interface Claim {
  action: string;
  holds: boolean;
  decided_by?: string;
  reason?: string;
}
/**
 * A ready input; order is how the words are shuffled to begin with, empty for not at all.
 */
export interface Example {
  name: string;
  words: string[];
  order?: number[];
  note?: string;
}
/**
 * A number that Python measured when the page was made, with the function that anyone can run again.
 */
export interface Fact {
  name: string;
  value: number;
  text: string;
  source: string;
}

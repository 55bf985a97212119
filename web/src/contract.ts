// Generated from contract/schema.json by `npm run contract`. Do not edit.

export type Contract =
  | Explorable
  | Drawing
  | Report
  | Audit
  | Course
  | News
  | Comparison
  | Heads
  | Numbers
  | Masks
  | Messages
  | Cost
  | Tokenised;

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
 *     data    the numbers themselves, or base64 of their little-endian bytes (8 of float64, int64; 4 of float32; 2 of float16; 1)
 */
export interface Array {
  shape: number[];
  dtype: "bool" | "float16" | "float32" | "float64" | "int64" | "int8";
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
/**
 * A page that draws one model.
 *
 *     towers   headings of the columns, from left to right
 *     traced   which model the numbers come from, in a sentence: this one, or a small one of the same make
 *     trace    its program on a small input; leaves name their numbers in the pool
 *     names    what stands along an axis of that trace: words of "token", of "source", of "vocabulary"
 *     heads    the most heads that an attention of the trace has
 */
export interface Drawing {
  version?: number;
  title: string;
  summary: string;
  parameters: number;
  towers: string[];
  boxes: Box[];
  frames: Frame[];
  links: Link[];
  stands: Stand[];
  traced: string;
  trace: Trace;
  pool: {
    [k: string]: Array;
  };
  names: {
    [k: string]: string[];
  };
  heads: number;
}
/**
 * One part of a model, once for all layers that are alike.
 *
 *     about       what the part does, in a sentence; lines: its sizes and settings
 *     shape       of what it gives, N tokens (M of an encoder)
 *     parameters  of one copy; total: of all copies, without those counted at another box, so that totals add up to the model's
 *     tower       which column it stands in; frame: the innermost frame around it, empty for none
 *     inside      the box that it stands in, and slot where in it: on queries and keys, on scores, on values
 *     claims      what this part, with what stands in it, says about each action; empty where there is nothing to say
 *     where       paths of its modules, one a layer
 *     steps       ids of what it computes in the drawing's trace
 *     seen        of a mask: who may look (rows) at whom (columns), among a few tokens
 */
export interface Box {
  id: string;
  kind:
    | "attention"
    | "cross"
    | "feedforward"
    | "head"
    | "input"
    | "join"
    | "map"
    | "mask"
    | "norm"
    | "output"
    | "position"
    | "readout"
    | "sum"
    | "table"
    | "token";
  title: string;
  about?: string;
  lines?: string[];
  shape?: string[];
  parameters?: number;
  total?: number;
  tower?: number;
  frame?: string;
  inside?: string;
  slot?: "" | "scores" | "turn" | "values";
  claims?: Claim[];
  where?: string[];
  steps?: string[];
  seen?: boolean[][];
}
/**
 * Boxes that repeat. outer: the frame around this one, empty for none.
 */
export interface Frame {
  id: string;
  title: string;
  repeat: number;
  tower?: number;
  outer?: string;
}
/**
 * An arrow between boxes, by id.
 *
 *     kind  "stream" goes up a tower, "side" joins it (a place added to a token), "residual" passes parts by, "source" brings an
 *           encoder's rows to those who ask, "tied" joins boxes that share a parameter
 */
export interface Link {
  source: string;
  target: string;
  kind?: "residual" | "side" | "source" | "stream" | "tied";
}
/**
 * What the whole model says about one action, and the ids of the boxes that notice it.
 */
export interface Stand {
  action: string;
  summary: string;
  holds: boolean;
  reason: string;
  boxes: string[];
}
/**
 * The content of a report page. said: of every row of the audit, in its order.
 */
export interface Report {
  version?: number;
  title: string;
  summary: string;
  audit: Audit;
  said: Said[];
}
/**
 * Everything one `equiscope check` found.
 *
 *     passes     forward passes of the model, by dtype
 *     finished   False where time ran out or somebody stopped it: rows not reached are undecided
 */
export interface Audit {
  version?: number;
  target: string;
  model: string;
  parameters: number;
  dtype: string;
  device: string;
  inputs: string;
  rows: Row[];
  seed?: number;
  effort?: string;
  mode?: string;
  tolerance?: number;
  passes?: {
    [k: string]: number;
  };
  seconds?: number;
  finished?: boolean;
  versions?: {
    [k: string]: string;
  };
  notes?: string[];
}
/**
 * One statement about a model, and what became of it.
 *
 *     name       of the action or property
 *     output     how the output has to move: "invariant", "permuted", "vector", ...; what was found to hold where none was asked
 *     claimed    yes, no or unknown; reason: which part decides
 *     error      worst relative error of all samples, in float64 where the model runs in it; median: of the samples
 *     errors     of every sample
 *     lie        of a continuous group: how fast it breaks at the identity, relative to the output, per unit of the group's direction
 *     floor      the rounding error of one pass in that precision
 *     samples    tried; bound: what that says of the rate of violations at 95 %, 3/n where none was found
 *     where      first module at which it breaks; cause: in words
 *     parameters at which it was worst: "given" or "random"
 *     subgroup   what does hold, where the whole does not: "shifts by 4"
 *     fails      whether this row makes the exit code 1: it was claimed, asked for or is expected of every model, and does not hold
 *     note       what else was found: the reason of `undecided`, a constant model, a float32 table
 */
export interface Row {
  name: string;
  kind: "action" | "property";
  verdict: "approximate" | "broken" | "exact" | "rounding" | "undecided";
  summary?: string;
  output?: string;
  claimed?: "no" | "unknown" | "yes";
  reason?: string;
  error?: number | null;
  median?: number | null;
  errors?: number[];
  error32?: number | null;
  lie?: number | null;
  floor?: number | null;
  samples?: number;
  bound?: number | null;
  where?: string;
  cause?: string;
  parameters?: string;
  subgroup?: string;
  fails?: boolean;
  note?: string;
  counterexample?: Counterexample | null;
  trail?: Mark[];
  proof?: Proof | null;
  passes?: number;
  seconds?: number;
}
/**
 * The smallest input found for which the statement fails; `equiscope.audit.replay` measures it again.
 *
 *     text     in words, e.g. "exchange the tokens 3 and 4 of 7"
 *     parameters  at which it was found: "given" or "random"
 *     element  the element of the action, or what a property changed, by the names of its fields
 *     inputs   what the model was given, by the names of its arguments; empty where that would be too large
 */
export interface Counterexample {
  text: string;
  error: number;
  element?: {};
  inputs?: {
    [k: string]: Array;
  };
  parameters?: string;
}
/**
 * How far a module's output is from what the symmetry asks of it, on the way through the model.
 *
 *     error  relative; None where the output cannot be compared (it has no rows of tokens, say)
 */
export interface Mark {
  module: string;
  error: number | null;
  depth?: number;
}
/**
 * What the graph of operations says without running it.
 *
 *     answer     proved, refuted or unknown
 *     operation  the one that refutes, or the first without a rule
 *     where      the module it stands in
 */
export interface Proof {
  answer: "proved" | "refuted" | "unknown";
  operation?: string;
  where?: string;
  reason?: string;
}
/**
 * One row in words.
 *
 *     id        of the row on its page, and in a link to it; rows of one name are told apart
 *     finding   sentences, the most important first
 *     samples   what was tried, and what that bounds: "0 of 12: fewer than 25 % of inputs at 95 %"
 *     again     what repeats this row alone
 */
export interface Said {
  id: string;
  finding: string[];
  samples: string;
  again: string;
}
/**
 * The content of a run's page.
 *
 *     live     whether the page asks for more; series: of the entries: another one begins again
 *     every    only each so many-th point is on the page, and the last
 *     left     seconds of training that are to come, by the pace of late; None where it has ended or nothing is known
 */
export interface Course {
  version?: number;
  title: string;
  summary: string;
  left?: number | null;
  run: Run;
  live?: boolean;
  series?: string;
  every?: number;
}
/**
 * A run.
 *
 *     recipe      as it was resolved, every field said; spec: of the model
 *     versions    of what computed it; machine: where
 *     beside      the folder of the recipe, where data is looked for first
 *     processes   how many computed it together, last
 *     multiply_adds  of one step's forward pass
 *     result      what was measured at the end, by part
 *     reason      why it stopped or failed
 */
export interface Run {
  version?: number;
  title: string;
  task: string;
  recipe: {};
  spec: {};
  data: Source[];
  seed: number;
  versions: {
    [k: string]: string;
  };
  machine: {};
  beside?: string;
  processes?: number;
  parameters?: number;
  multiply_adds?: number;
  steps: number;
  state?: "failed" | "finished" | "running" | "stopped";
  reason?: string;
  seconds?: number;
  result?: {
    [k: string]: {
      [k: string]: number | null;
    };
  };
  points?: Point[];
  scores?: Score[];
  samples?: Sample[];
}
/**
 * A file that was learned from or measured on. part: "train", "validation", "test".
 */
export interface Source {
  name: string;
  part: string;
  bytes: number;
  sha256: string;
}
/**
 * After one step of the optimiser.
 *
 *     step       steps done, 1 after the first
 *     loss       mean over the step's batch, before the step
 *     rate       of learning
 *     norm       of the gradient, before clipping
 *     seconds    of training, evaluation and saving left out
 *     tokens     that were read in one second
 *     busy       share of this machine's measured rate of matrix products that the model's products used; None where unknown
 */
export interface Point {
  entry: "point";
  step: number;
  loss: number;
  rate: number;
  norm: number;
  seconds: number;
  tokens: number;
  busy?: number | null;
}
/**
 * A measurement on a part of the data. best: whether it was the best so far, by the task's first number.
 *
 *     values  by their names; one that is no number, or endless, is None when it is read again
 */
export interface Score {
  entry: "score";
  step: number;
  part: string;
  values: {
    [k: string]: number | null;
  };
  best?: boolean;
}
/**
 * What the model makes of a fixed example as it learns. wanted: the right answer, where there is one.
 *
 *     tokens     of the example, and attention: of every layer and head [L, H, N, M], where it was looked at: how much each of the N
 *                tokens drew from each of the M
 *     source     the M tokens, where they are others: those that an encoder reads, or the patches of a picture
 *     grid       rows and columns in which these M stand, where they are patches
 *     picture    what was given, where it is a picture: [rows, columns] or [rows, columns, 3], 0 to 255
 */
export interface Sample {
  entry: "sample";
  step: number;
  given: string;
  answer: string;
  wanted?: string | null;
  tokens?: string[];
  source?: string[];
  grid?: number[] | null;
  picture?: Array | null;
  attention?: Array | null;
}
/**
 * Entries of a run from number `first` on; more: whether others wait already.
 *
 *     silent   seconds since the last entry came
 *     state, reason, seconds, result  of the run now, as in `Run`
 */
export interface News {
  series: string;
  first: number;
  entries?: (Point | Score | Sample)[];
  more?: boolean;
  summary: string;
  left?: number | null;
  silent?: number;
  state: "failed" | "finished" | "running" | "stopped";
  reason?: string;
  seconds?: number;
  result?: {
    [k: string]: {
      [k: string]: number | null;
    };
  };
}
/**
 * What was compared, and what came of it.
 *
 *     question    in words; answer: a sentence that the spread supports; notes: what a reader should know
 *     task        of the recipe; part: of the data that decides; metric: its first number; better: which way
 *     varied      names of the recipe's fields that differ
 *     equal       what was made equal between candidates beside data and seeds
 *     axis        what `Beyond.factor` multiplies: "tokens of context", "pixels a side"; empty where nothing was tried
 *     command     that repeats it; recipe: what all runs share
 *     candidates  best first, those without a number last
 */
export interface Comparison {
  version?: number;
  title: string;
  question?: string;
  answer?: string;
  notes?: string[];
  task: string;
  part: string;
  metric: string;
  better: "less" | "more";
  varied: string[];
  equal?: "" | "compute" | "parameters";
  axis?: string;
  seeds: number[];
  command?: string;
  recipe?: {};
  data?: Source[];
  versions?: {
    [k: string]: string;
  };
  machine?: {};
  candidates: Candidate[];
  trials: Trial[];
  pairs?: Pair[];
}
/**
 * One of the models that are compared.
 *
 *     name           as a person reads it, e.g. "rope"
 *     changes        of the recipe, by the names of its fields
 *     spec           the model's, or the baseline's
 *     parameters     how many numbers it learns; multiply_adds: of one step's forward pass
 *     steps          of its budget, which differ where compute is made equal
 *     claims         which actions it says to respect
 *     measured       verdicts of a check of the trained model, by the names of actions and properties
 */
export interface Candidate {
  name: string;
  changes: {};
  spec?: {};
  parameters?: number;
  multiply_adds?: number;
  steps?: number;
  claims?: Claim[];
  measured?: {
    [k: string]: string;
  };
}
/**
 * One candidate with one seed.
 *
 *     folder   of its run, seen from the comparison's
 *     value    the number that decides, at the end, with the best weights; None where the run has none
 *     result   every number of every part, at the end
 *     curve    the first number of the validation part after each evaluation, as (step, number)
 *     seconds  of training; tokens: read in a second, the median over its steps; memory: most bytes held at once, None where unknown
 *     beyond   the same number at other sizes
 */
export interface Trial {
  candidate: string;
  seed: number;
  folder: string;
  state: "failed" | "finished" | "running" | "stopped";
  reason?: string;
  value?: number | null;
  result?: {
    [k: string]: {
      [k: string]: number | null;
    };
  };
  curve?: never[][];
  seconds?: number;
  tokens?: number | null;
  memory?: number | null;
  beyond?: Beyond[];
}
/**
 * The number that decides, on inputs of another size than those of training.
 *
 *     factor  times the size of training: of the context, or of the pictures' sides; size: in tokens, or pixels a side
 *     value   None where the model cannot read such inputs, and reason says why
 */
export interface Beyond {
  factor: number;
  size: number;
  value?: number | null;
  reason?: string;
}
/**
 * Two candidates, seed by seed.
 *
 *     difference  mean over common seeds of the first's number minus the second's
 *     low, high   between which the true mean lies with 95 %, for all pairs of the comparison together; None with one seed
 *     p           of a t-test on the seeds' differences, made larger for all pairs together (Holm 1979)
 *     decided     whether the spread supports that one is better: `better` names it
 *     same        whether every common seed gave the very same number
 *     seeds       how many would decide, were the spread and the difference what they seem; None where none would
 */
export interface Pair {
  first: string;
  second: string;
  difference: number;
  low?: number | null;
  high?: number | null;
  p?: number | null;
  decided?: boolean;
  better?: string;
  same?: boolean;
  seeds?: number | null;
}
/**
 * A page of all heads.
 *
 *     target   what a person named; model: the class that ran
 *     rolled   all layers of a stack as one, asked for after the last of `layers`: one head from the mean of each layer's heads, one
 *              from the largest of them
 *     served   numbers of a head are asked for one by one: /head?layer=L&head=H answers Numbers of one head, with &of=beside those
 *              of the other model
 */
export interface Heads {
  version?: number;
  title: string;
  summary: string;
  target: string;
  model: string;
  parameters: number;
  dtype: string;
  lines: Line[];
  layers: Layer[];
  places: Places[];
  notes: string[];
  served?: boolean;
  beside?: Beside | null;
  live?: Live | null;
  again?: Again | null;
  rolled?: Layer[];
}
/**
 * What stands in a row: words of a text, patches of a picture, slices of a sound.
 *
 *     labels   one a token, as people read it
 *     picture  data: address of the picture whose patches these are; empty for none
 *     grid     rows and columns of patches
 *     before   tokens in front of the patches: a class token, registers
 *     seconds  when each slice begins
 */
export interface Line {
  name: string;
  kind: "patches" | "slices" | "tokens" | "words";
  labels: string[];
  picture?: string;
  grid?: number[];
  before?: number;
  seconds?: number[];
}
/**
 * One attention: who asks and who answers, by the number of the line; its heads; its numbers, or why there are none.
 *
 *     where    path of its module
 *     groups   how many heads keys and values have
 *     rebuilt  |A·V − output|, by the output's largest number: how well these numbers give what the model gave; None: not known
 *     small    base64 of H · side · side bytes: 255 · √(largest weight) in each cell of a picture of the weights; empty: letters tell
 *     why      why it has no numbers, or weights instead of scores; empty where it has all
 */
export interface Layer {
  where: string;
  cross: boolean;
  asks: number;
  answers: number;
  groups: number;
  heads: Head[];
  small: string;
  side: number;
  rebuilt?: number | null;
  numbers?: Numbers | null;
  why?: string;
}
/**
 * What one head does with this input: means over rows that may look at two tokens or more; None where there is no such thing.
 *
 *     previous, own, first  weight on the token before, on the token itself, on the first token
 *     entropy               of a row's weights, 0 where one token has all, 1 where all that may be seen have the same
 *     distance              tokens between who asks and who is looked at, weighted
 *     content               share of the weights' variation that neither the distance nor the place of the key explains
 */
export interface Head {
  role: "content" | "even" | "first" | "mixed" | "previous" | "self";
  previous?: number | null;
  own?: number | null;
  first?: number | null;
  entropy?: number | null;
  distance?: number | null;
  content?: number | null;
}
/**
 * What weights are made of: softmax over m of (scale · q[n]·k[m] + bias[n, m]), among the m that n may see.
 *
 *     q, k, v  [H, N, K], [G, M, K], [G, M, V]: head h reads keys and values number h·G // H
 *     bias     [1 or H, 1 or N, M], what is added to the scores; seen: the same shape, which tokens may be seen. None: nothing, all
 *     causal   of these only m <= n + M - N may be seen
 *     cap      scores are cap · tanh(score / cap) before anything is added; 0: they are not bounded
 *     sink     [H], one score more in each row's softmax, which leads nowhere; None: no such thing
 *     weights  [H, N, M] themselves, where they do not follow from the rest
 *     about    weights that a page computes may be off by this share of themselves: the file was made small; 0: as exact as the rest
 *     q_step, k_step  [H, N], [G, M]: q and k are whole numbers, rounded, and each row counts in this unit
 *     letters  one text a head in place of all the rest: a letter a weight, row by row, where causal only m <= n + M - N.
 *              Code 35 + l, one more from 92 on, is 2^(-l / 3); l = 90: no weight, or one below 1e-9. rows, columns: N and M of these
 */
export interface Numbers {
  scale: number;
  causal?: boolean;
  cap?: number;
  q?: Array | null;
  k?: Array | null;
  v?: Array | null;
  bias?: Array | null;
  seen?: Array | null;
  sink?: Array | null;
  weights?: Array | null;
  about?: number;
  q_step?: Array | null;
  k_step?: Array | null;
  letters?: string[];
  rows?: number;
  columns?: number;
}
/**
 * A learned table of places, and what became of it.
 *
 *     cosines   [S, S] of rows with rows; every how many rows there is one: step
 *     distance  mean cosine of two rows so many apart, and its spread; of a grid: rounded distances of patches
 *     spectrum  share of the table's variation in each frequency: 1, 2, ... turns over the whole table; empty for a grid
 *     shifts    share of the cosines' variation that the distance alone explains: 1 for a table that shifts with the words
 */
export interface Places {
  where: string;
  rows: number;
  width: number;
  step: number;
  cosines: Array;
  distance: number[];
  spread: number[];
  spectrum: number[];
  shifts: number;
  grid?: number[];
}
/**
 * Another model on the same input: its layers, each beside the one of the first model that it is compared with.
 *
 *     target   what a person named; names: short ones of both, the first model's first
 *     layers   as many as the first model has, by the numbers of its lines; None where no layer has the same rows and as many heads
 *     apart    how far the weights of each pair of heads are apart: mean over rows of half the sum of |weight − weight|, 0 to 1;
 *              empty where there is no pair
 */
export interface Beside {
  target: string;
  names: string[];
  model: string;
  parameters: number;
  dtype: string;
  layers: (Layer | null)[];
  apart: number[][];
}
/**
 * What a served page may ask of the model itself: /again?order=2,0,1&from=100 answers Heads of the moved tokens.
 *
 *     line     the number of the line whose tokens can be moved
 *     shuffle  why they cannot stand in another order; empty where they can. slide: why they cannot begin at another place
 */
export interface Live {
  line: number;
  shuffle?: string;
  slide?: string;
}
/**
 * A run on moved tokens, and what the weights say to that.
 *
 *     run      its number: /head answers for it with &run=R
 *     order    for each place the token of the first run that stands there now; empty: all stay. start: what was added to every place
 *     differs  of each layer: largest |weight − weight| of any head between this run and the first one, moved as the tokens were
 *     floor    what rounding alone may make of it
 */
export interface Again {
  run: number;
  line: number;
  order: number[];
  start: number;
  differs: number[];
  floor: number[];
}
/**
 * A page of masks.
 */
export interface Masks {
  version?: number;
  title: string;
  summary: string;
  notes?: string[];
}
/**
 * A page of attention on a graph.
 */
export interface Messages {
  version?: number;
  title: string;
  summary: string;
  notes?: string[];
}
/**
 * A page of costs.
 */
export interface Cost {
  version?: number;
  title: string;
  summary: string;
  notes?: string[];
}
/**
 * A page of tokens.
 */
export interface Tokenised {
  version?: number;
  title: string;
  summary: string;
  notes?: string[];
}

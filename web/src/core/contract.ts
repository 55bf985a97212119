// Generated from contract/schema.json by `npm run contract`. Do not edit.

export type Contract =
  | Explorable
  | Drawing
  | Report
  | Audit
  | RunReport
  | RunUpdate
  | Comparison
  | Heads
  | AttentionTensors
  | Masks
  | Messages
  | Cost
  | Tokenised
  | Molecule
  | Parity
  | Patches
  | Reach
  | Computation
  | ProgramRecord
  | InterventionEffect
  | RankedHeads
  | Attribution
  | Guarded
  | EvaluationRecord;

/**
 * A page's content.
 *
 *     scheme    the one to begin with; versus, the one beside it; compared: those that a comparison of schemes begins with
 *     fixed_embeddings  numbers of words that are not spelled from their letters
 *     recorded_length  how many words the programs were traced with
 *     limit     how many words the page takes
 *     max_positions  how far the sentence can slide: rows of a learned table
 *     pool      arrays that programs share, so that an edited weight is edited in all of them
 *     tour      named programs that are not schemes of the model (clocks, the rotation that carries p_i to p_i+k)
 *     paragraph words in which the sentence slides
 */
export interface Explorable {
  version?: number;
  title: string;
  words: string[];
  fixed_embeddings: {
    [k: string]: number[];
  };
  max_positions: number;
  limit: number;
  recorded_length: number;
  width: number;
  heads: number;
  seed: number;
  scheme: string;
  versus: string;
  compared: string[];
  causal: boolean;
  schemes: SchemeVariant[];
  programs: SchemeProgram[];
  tour: {
    [k: string]: ProgramRecord;
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
export interface SchemeVariant {
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
export interface SchemeProgram {
  scheme: string;
  setting: string;
  program: ProgramRecord;
  claims: Claim[];
  roles?: {
    [k: string]: string;
  };
}
/**
 * A program with its numbers: leaves first, then steps in the order in which they ran.
 *
 *     outputs ids of the values that the model returned; named: those that it returned by name
 *     notes   what the record does not reproduce, in sentences
 */
export interface ProgramRecord {
  version?: number;
  title?: string;
  leaves: LeafRecord[];
  steps: StepRecord[];
  outputs: string[];
  named?: {
    [k: string]: string;
  };
  notes?: string[];
}
/**
 * Numbers that the program reads and does not compute.
 *
 *     kind    content, document and valid move with the tokens; coordinate and order belong to the positions; weight is a
 *             parameter of the model, constant follows from its settings; opaque was computed by code that was not recorded
 *     array   the numbers, or nothing where `pool` names an entry in the pool of the explorable around it
 */
export interface LeafRecord {
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
 *     shape   sizes of its axes; dtype: of its numbers
 *     data    the numbers themselves, or base64 of their little-endian bytes (8 of float64, int64; 4 of float32; 2 of float16; 1)
 */
export interface Array {
  shape: number[];
  dtype: "bool" | "float16" | "float32" | "float64" | "int64" | "int8";
  data: number[] | string;
}
/**
 * Numbers that an operation computes from others.
 *
 *     op      a name in the closed list of operations (`equiscope.program.operations.OPERATIONS`), or "loops"
 *     inputs  ids of leaves and earlier steps
 *     where   path of the module that ran it, e.g. "blocks.0.attention"
 *     array   the numbers, stored where a test needs them; a page recomputes them
 *     loops   of the operation "loops": what it computes, y of x0, x1, ... in the order of the inputs
 */
export interface StepRecord {
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
  loops?: Computation;
}
/**
 * Steps in an order in which they can be run, in float64; integers and booleans are numbers.
 *
 *     sizes    number of entries of each slot; a slot may be written by several steps, all of them before it is read
 *     outputs  by name; those who want only some run the steps that these need
 */
export interface Computation {
  version?: number;
  inputs: {
    [k: string]: TensorSlot;
  };
  outputs: {
    [k: string]: TensorSlot;
  };
  constants: Constant[];
  sizes: number[];
  steps: Loop[];
}
/**
 * Where an input is put, or an output is read: a whole slot, in row-major order.
 */
export interface TensorSlot {
  slot: number;
  shape: number[];
}
/**
 * A slot that no input changes: weights, tables of rows, masks.
 */
export interface Constant {
  slot: number;
  array: Array;
}
/**
 * One operation at every index of `shape`.
 *
 *     to     the view that is written. Where its stride is 0 on a longer axis, the operation joins what it finds there: `sum`, `dot`
 *            (the sum of products of two), `amax`, `amin`, `prod` begin with 0, 0, -inf, inf, 1
 *     of     views that are read, or numbers. `gather` reads of[0] at an offset of of[1] numbers; `scatter` (adds) and `put`
 *            (writes) offset `to` in the same way, and keep the other entries
 */
export interface Loop {
  op: string;
  shape: number[];
  to: number[];
  of: (number[] | number)[];
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
 *     program_note  which model the numbers come from: this one, or a toy model of the same architecture
 *     program  its program on a small input; leaves name their numbers in the pool
 *     axis_names  what stands along an axis of that program: words of "token", of "source", of "vocabulary"
 *     heads    the most heads that an attention of the program has
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
  claims: ModelClaim[];
  program_note: string;
  program: ProgramRecord;
  pool: {
    [k: string]: Array;
  };
  axis_names: {
    [k: string]: string[];
  };
  heads: number;
}
/**
 * One part of a model, drawn once for all equal layers.
 *
 *     about       what the part does, in a sentence; lines: its sizes and settings
 *     shape       of its output, N tokens (M of an encoder)
 *     parameters  of one copy; total: of all copies, without those counted at another box, so that totals add up to the model's
 *     tower       index of its column; frame: the innermost frame around it, empty for none
 *     inside      the box around it; slot: where it acts in that box, on queries and keys, on scores, on values
 *     claims      claims of this part and the boxes in it about each action; empty for none
 *     where       paths of its modules, one per layer
 *     steps       ids of what it computes in the program of the drawing
 *     mask        of a mask: True where a row may attend to a column, for a few tokens
 */
export interface Box {
  id: string;
  kind:
    | "attention"
    | "cross"
    | "feedforward"
    | "input"
    | "join"
    | "map"
    | "mask"
    | "norm"
    | "output"
    | "output_layer"
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
  slot?: "" | "rotate" | "scores" | "values";
  claims?: Claim[];
  where?: string[];
  steps?: string[];
  mask?: boolean[][];
}
/**
 * A group of boxes that repeats. outer: the frame around this one, empty for none.
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
 *     kind  "stream" goes up a tower, "side" joins it (a position added to a token), "residual" bypasses a part, "source" leads from
 *           an encoder to cross-attention, "tied" joins boxes that share a parameter
 */
export interface Link {
  source: string;
  target: string;
  kind?: "residual" | "side" | "source" | "stream" | "tied";
}
/**
 * The claim of the whole model about one action, and the ids of the boxes that are not equivariant to it.
 */
export interface ModelClaim {
  action: string;
  summary: string;
  holds: boolean;
  reason: string;
  boxes: string[];
}
/**
 * The content of a report page. rows: of every row of the audit, in its order.
 */
export interface Report {
  version?: number;
  title: string;
  summary: string;
  audit: Audit;
  rows: ReportRow[];
}
/**
 * Everything one `equiscope check` found.
 *
 *     version    of the record; another version has other fields
 *     target     as it was named; model: the class; parameters: their number
 *     dtype, device  of the parameters
 *     inputs     in words, with kinds and shapes
 *     rows       a row for each statement
 *     seed, effort, mode, tolerance  as requested
 *     seconds    that the check took; versions: of equiscope, torch and Python; notes: in sentences
 *     served     how it was asked, where the model is one that a server runs: target is then its address
 *     passes     calls of the model, by dtype; sequences: rows of the batches that they were given, by dtype
 *     finished   False if the check ran out of time or was stopped: rows that it did not reach are undecided
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
  sequences?: {
    [k: string]: number;
  };
  seconds?: number;
  finished?: boolean;
  versions?: {
    [k: string]: string;
  };
  notes?: string[];
  served?: ServedModel | null;
}
/**
 * One statement about a model, and its verdict.
 *
 *     name       of the action or property; kind: action or property; summary: what it states, in words
 *     verdict    holds, approximate, broken, not applicable or undecided
 *     output     how the output transforms: "invariant", "permuted", "vector", ...: as requested, else as measured
 *     claimed    yes, no or unknown; reason: the part that decides
 *     error      worst relative error of all samples, in float64 where the model runs in it; median: of the samples
 *     errors     of every sample
 *     lie_derivative   of a continuous group: the rate of violation at the identity, relative to the output, per unit of the group's
 *                      direction
 *     error32    worst relative error in float32; floor: the rounding error of one pass in that precision
 *     samples    number of samples
 *     violation_bound  upper bound on the rate of violations at 95 % confidence: 3/samples where no sample shows one
 *     where      first module at which it breaks; cause: the operation there, in words
 *     parameters  at which the error is largest: "given" or "random"
 *     subgroup   that holds where the whole group does not: "shifts by 4"
 *     fails      whether this row makes the exit code 1: it is claimed, requested or expected of every model, and does not hold
 *     accepted   the reason in the baseline file for which a row that does not hold does not fail
 *     note       the reason of `undecided` or `not applicable`, or a remark: a constant model, a float32 table
 *     outputs    the verdict on each output of a model with several
 *     coverage   the positions and lengths that were measured, where they are part of the statement
 *     counterexample  the smallest input found for which it fails; null where none was found
 *     trail      how far the output of each module is from what the statement asks, on the way through the model
 *     proof      what the graph of operations says, where one was tried
 *     passes     number of calls of the model; seconds: that it took
 */
export interface Row {
  name: string;
  kind: "action" | "property";
  verdict: "approximate" | "broken" | "holds" | "not applicable" | "undecided";
  summary?: string;
  output?: string;
  claimed?: "no" | "unknown" | "yes";
  reason?: string;
  error?: number | null;
  median?: number | null;
  errors?: number[];
  error32?: number | null;
  lie_derivative?: number | null;
  floor?: number | null;
  samples?: number;
  violation_bound?: number | null;
  where?: string;
  cause?: string;
  parameters?: string;
  subgroup?: string;
  fails?: boolean;
  accepted?: string;
  note?: string;
  outputs?: OutputVerdict[];
  coverage?: Coverage | null;
  counterexample?: Counterexample | null;
  trail?: Mark[];
  proof?: Proof | null;
  passes?: number;
  seconds?: number;
}
/**
 * What became of one of several outputs: a `pooler_output` beside a `last_hidden_state`.
 *
 *     name     of the output, or of a change or an engine; verdict: as of a row; error: as of a row
 *     decides  whether the verdict of the row follows from this output too
 *     note     what this output does, in words: "reads position 0, which is padding"
 */
export interface OutputVerdict {
  name: string;
  verdict: "approximate" | "broken" | "holds" | "not applicable" | "undecided";
  error?: number | null;
  decides?: boolean;
  note?: string;
}
/**
 * The part of the positions and lengths that was measured.
 *
 *     positions  of the given input that were tried; of: so many
 *     lengths    of inputs made longer or shorter than the given one at which it was asked too
 *     refused    why no longer ones were asked, where the model did not take them
 */
export interface Coverage {
  positions?: number;
  of?: number;
  lengths?: number[];
  refused?: string;
}
/**
 * The smallest input found for which the statement fails; `equiscope.audit.replay` measures it again.
 *
 *     text     in words, e.g. "exchange the tokens 3 and 4 of 7"; error: the relative error there
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
 *     module  its path; depth: in how many modules it stands
 *     error   relative; None where the output cannot be compared (it has no rows of tokens, say)
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
 *     reason     for which sizes it is proved, or why it is unknown
 */
export interface Proof {
  answer: "proved" | "refuted" | "unknown";
  operation?: string;
  where?: string;
  reason?: string;
}
/**
 * How a served model was asked.
 *
 *     api       completions or chat completions
 *     requests  that were made; budget: how many might be made
 *     prompt_tokens, completion_tokens  of the requests, as the server counts
 *     noise     by how much rounding typically changes a logprob on this server, in nats
 *     size      spread of the logprobs at one position, in nats; errors are relative to it
 */
export interface ServedModel {
  api: string;
  requests: number;
  budget: number;
  prompt_tokens: number;
  completion_tokens: number;
  noise: number;
  size: number;
}
/**
 * One row in words.
 *
 *     id        of the row on its page and in links; unique, also where several rows have one name
 *     finding   sentences, the most important first
 *     samples   number of samples and the bound that follows: "no violation in 12 samples (95 % interval: below ...)"
 *     command   what repeats this row alone
 */
export interface ReportRow {
  id: string;
  finding: string[];
  samples: string;
  command: string;
}
/**
 * The content of a run's page.
 *
 *     live     whether the page asks for more; series: of the entries: another one begins again
 *     every    only each so many-th point is on the page, and the last
 *     seconds_left  seconds of training that are to come, by the pace of late; None where it has ended or nothing is known
 */
export interface RunReport {
  version?: number;
  title: string;
  summary: string;
  seconds_left?: number | null;
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
 *     recipe_folder   the folder of the recipe, where data is looked for first
 *     processes   how many computed it together, last
 *     multiply_adds  of one step's forward pass
 *     result      what was measured at the end, by part
 *     reason      why it stopped or failed
 *     notes       what a reader should know: what of the data was left out, what the model cannot know
 */
export interface Run {
  version?: number;
  title: string;
  task: string;
  recipe: {};
  spec: {};
  data: DataFile[];
  seed: number;
  versions: {
    [k: string]: string;
  };
  machine: {};
  recipe_folder?: string;
  processes?: number;
  parameters?: number;
  multiply_adds?: number;
  steps: number;
  state?: "failed" | "finished" | "running" | "stopped";
  reason?: string;
  notes?: string[];
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
export interface DataFile {
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
 *     mfu        model FLOPs utilization: the rate of the model's products, of this machine's measured rate; None where unknown
 */
export interface Point {
  entry: "point";
  step: number;
  loss: number;
  rate: number;
  norm: number;
  seconds: number;
  tokens: number;
  mfu?: number | null;
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
 * The output of the model for a fixed example during training. target: the correct output, if there is one.
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
  prompt: string;
  answer: string;
  target?: string | null;
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
export interface RunUpdate {
  series: string;
  first: number;
  entries?: (Point | Score | Sample)[];
  more?: boolean;
  summary: string;
  seconds_left?: number | null;
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
 * The compared candidates and the result.
 *
 *     question    in words; answer: the verdicts on the best candidates in a few sentences; notes: caveats
 *     task        of the recipe; part: of the data that decides; metric: its first metric; better: which direction is better
 *     varied      names of the recipe's fields that differ
 *     equal       what is made equal between candidates beside data and seeds
 *     tune        fields whose values were chosen for each candidate on the validation part, with other seeds; and the values tried
 *     smallest_effect  smallest difference of the metric that matters, fixed before the runs; without one no pair is equivalent
 *     looks       numbers of seeds at which it is tested; empty if nobody recorded whether their number was fixed before the runs
 *     axis        what `Extrapolation.factor` multiplies: "tokens of context", "symbols of input" or "pixels a side"; empty if no
 *                  other size was measured
 *     command     that repeats the comparison; recipe: the fields that all runs share
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
  tune?: {
    [k: string]: unknown[];
  };
  smallest_effect?: number | null;
  looks?: Look[];
  axis?: string;
  seeds: number[];
  command?: string;
  recipe?: {};
  data?: DataFile[];
  versions?: {
    [k: string]: string;
  };
  machine?: {};
  candidates: Candidate[];
  trials: Trial[];
  pairs?: PairedDifference[];
}
/**
 * One of the numbers of seeds at which the comparison is tested.
 *
 *     seeds    of each candidate
 *     level    share of all comparisons without a difference in which this look may report one: what it spends of the 5 %
 *     planned  before the first run; seeds that were added later make an unplanned look, beyond the 5 %
 */
export interface Look {
  seeds: number;
  level: number;
  planned?: boolean;
}
/**
 * One of the models that are compared.
 *
 *     name           as a person reads it, e.g. "rope"
 *     changes        to the recipe, by the names of its fields
 *     spec           of the model, or of the baseline
 *     parameters     number of trainable parameters; multiply_adds: of one step's forward pass
 *     steps          of training, which differ if compute is made equal
 *     claims         actions that the model claims to respect
 *     verdicts       of a check of the trained model, by the names of actions and properties
 *     removed        why a part of the model removes what the candidate's position scheme adds; empty where none does
 */
export interface Candidate {
  name: string;
  changes: {};
  spec?: {};
  parameters?: number;
  multiply_adds?: number;
  steps?: number;
  claims?: Claim[];
  verdicts?: {
    [k: string]: string;
  };
  removed?: string;
}
/**
 * One candidate with one seed.
 *
 *     folder   of its run, relative to the comparison's
 *     value    the metric at the end, with the best weights; None if the run has none
 *     result   all metrics of all parts, at the end
 *     curve    the metric on the validation part after each evaluation: (step, value)
 *     seconds  of training; tokens: per second, the median over steps; memory: peak in bytes, None if unknown
 *     measuring  seconds of evaluating at other sizes and of checking symmetries, after training
 *     extrapolation  the metric at other sizes
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
  measuring?: number;
  tokens?: number | null;
  memory?: number | null;
  extrapolation?: Extrapolation[];
}
/**
 * The metric on inputs of another size than in training.
 *
 *     factor  size relative to training, of the context, the input or the sides of pictures; size: in tokens, or pixels a side
 *     value   None if the model cannot read such inputs, for the reason in `reason`; values: all metrics, by name
 */
export interface Extrapolation {
  factor: number;
  size: number;
  value?: number | null;
  values?: {
    [k: string]: number | null;
  };
  reason?: string;
}
/**
 * The difference between two candidates over their common seeds, and the verdict on it.
 *
 *     difference    mean over common seeds of the first's metric minus the second's
 *     low, high     confidence interval of the difference, adjusted for all pairs and looks; None without a test
 *     p             of a paired t-test of no difference, adjusted for all pairs (Holm 1979) and looks; None without a test
 *     p_equivalent  of two one-sided paired t-tests against the smallest effect, adjusted for all pairs and looks; None without
 *                   a test or a smallest effect
 *     verdict       read off the interval: "equivalent" if it lies within the smallest effect on both sides of 0, else
 *                   "different" if it excludes 0, else "undecided". "identical" if every common seed gave both the same number
 *     better        the better candidate of two that are different
 *     seeds         of an undecided pair: seeds of a new comparison that decides such a pair with probability 80 %: which finds
 *                   a difference as large as the smallest effect (without one, as the measured difference), and shows that
 *                   equal candidates are equivalent; None if that takes more than 128
 */
export interface PairedDifference {
  first: string;
  second: string;
  difference: number;
  low?: number | null;
  high?: number | null;
  p?: number | null;
  p_equivalent?: number | null;
  verdict: "different" | "equivalent" | "identical" | "undecided";
  better?: string;
  seeds?: number | null;
}
/**
 * The page of all heads. Layers and heads are counted from 0.
 *
 *     target            the name that the user gave; model: the class that ran
 *     rollout           all layers of a stack as one, numbered after the last of `layers`: one head from the mean over heads, one from
 *                       the maximum
 *     predictions       None where the output cannot be read as predictions
 *     interventions     what the page may change in the model; None on a rerun
 *     cross_alignments  one for each two sequences of words of which one attends to the other
 *     served            the page requests the tensors of single heads: /head?layer=L&head=H responds with the AttentionTensors of a
 *                       head, with &of=side_by_side those of the other model
 */
export interface Heads {
  version?: number;
  title: string;
  summary: string;
  target: string;
  model: string;
  parameters: number;
  dtype: string;
  sequences: TokenSequence[];
  layers: AttentionLayer[];
  position_tables: PositionTable[];
  notes: string[];
  served?: boolean;
  side_by_side?: SideBySide | null;
  rerun_options?: RerunOptions | null;
  rerun?: Rerun | null;
  rollout?: AttentionLayer[];
  predictions?: Predictions | null;
  cross_alignments?: CrossAlignment[];
  interventions?: InterventionOptions | null;
}
/**
 * The tokens of the rows or columns of an attention: words of a text, patches of a picture, slices of a sound.
 *
 *     labels         one per token
 *     words          of each token the number of the word that it is a piece of, from 0 on; empty: not known
 *     picture        data: address of the picture; empty for none
 *     grid           rows and columns of patches
 *     prefix_tokens  tokens before the patches or slices: a class token, registers, columns beside the input
 *     seconds        start of each slice, without prefix tokens; duration: seconds of a slice, 0: until the next one starts
 *     sound          the sound itself; None: not in the record
 */
export interface TokenSequence {
  name: string;
  kind: "patches" | "slices" | "tokens" | "words";
  labels: string[];
  picture?: string;
  grid?: number[];
  prefix_tokens?: number;
  seconds?: number[];
  duration?: number;
  words?: number[];
  sound?: AudioClip | null;
}
/**
 * A sound that a page draws and plays. rate: samples per second; samples: base64, 16 bits each, little-endian.
 */
export interface AudioClip {
  rate: number;
  samples: string;
}
/**
 * One attention: its query and key sequences by index, its heads, and its tensors, or the reason why there are none.
 *
 *     where                 path of its module
 *     kv_heads              number of heads of keys and values
 *     thumbnail             base64 of H · side · side bytes: 255 · √(largest weight) in each cell of a picture of the weights; empty
 *                           where a page computes it from `encoded_weights`. thumbnail_side: cells along a side
 *     reconstruction_error  max |A·V − output| / max |output|: how well these tensors reproduce the model's output; None: not known
 *     reason                why it has no tensors, or weights instead of scores; empty where it has all
 */
export interface AttentionLayer {
  where: string;
  cross: boolean;
  query_sequence: number;
  key_sequence: number;
  kv_heads: number;
  heads: HeadStatistics[];
  thumbnail: string;
  thumbnail_side: number;
  reconstruction_error?: number | null;
  tensors?: AttentionTensors | null;
  reason?: string;
}
/**
 * What one head does on this input: means over rows that may attend to two tokens or more; None where undefined.
 *
 *     previous, own, first  weight on the previous token, on the token itself, on the first token
 *     entropy               of a row's weights: 0 for all weight on one token, 1 for uniform weights over the allowed tokens
 *     distance              mean distance in tokens between query and key, weighted
 *     content               share of the weights' variance that neither the distance nor the position of the key explains
 *     diagonal              for cross-attention: share of rows whose largest weight is at most one token from the straight line from
 *                           the first tokens of both sequences to the last ones; diagonal_chance: that share for random links
 */
export interface HeadStatistics {
  role: "content" | "first" | "mixed" | "previous" | "self" | "uniform";
  previous?: number | null;
  own?: number | null;
  first?: number | null;
  entropy?: number | null;
  distance?: number | null;
  content?: number | null;
  diagonal?: number | null;
  diagonal_chance?: number | null;
}
/**
 * The tensors behind attention weights: softmax over m of (scale · q[n]·k[m] + bias[n, m]), over the m that the mask allows.
 *
 *     q, k, v          [H, N, K], [G, M, K], [G, M, V]: head h reads keys and values of group h·G // H
 *     bias             [1 or H, 1 or N, M], added to the scores; None: zero
 *     mask             the same shape, True: may attend; None: all may
 *     causal           also requires m <= n + M - N
 *     cap              scores are cap · tanh(score / cap) before the bias is added; 0: no cap
 *     sink             [H], one more score in each row's softmax, which has no value; None: no sink
 *     weights          [H, N, M], stored where they cannot be recomputed
 *     relative_error   bound on the relative error of recomputed weights in a compact file; 0: exact
 *     q_scale, k_scale [H, N], [G, M]: scale of each row of q and k, which are quantized to int8
 *     encoded_weights  one string per head instead of the rest: one letter per weight, row by row, where causal only m <= n + M - N.
 *                      Code 35 + l, one more from 92 on, is 2^(-l / 3); l = 90: no weight, or one below 1e-9. rows, columns: N and M
 */
export interface AttentionTensors {
  scale: number;
  causal?: boolean;
  cap?: number;
  q?: Array | null;
  k?: Array | null;
  v?: Array | null;
  bias?: Array | null;
  mask?: Array | null;
  sink?: Array | null;
  weights?: Array | null;
  relative_error?: number;
  q_scale?: Array | null;
  k_scale?: Array | null;
  encoded_weights?: string[];
  rows?: number;
  columns?: number;
}
/**
 * A learned table of position embeddings, measured.
 *
 *     cosines           [S, S] cosines between every `step`-th rows
 *     distance          mean cosine of two rows at each distance, and its spread; for a grid: rounded distances of patches
 *     spectrum          share of the table's variance at each frequency: 1, 2, ... periods over the whole table; empty for a grid
 *     shift_invariance  share of the cosines' variance that the distance alone explains: 1 for a shift-invariant table
 */
export interface PositionTable {
  where: string;
  rows: number;
  width: number;
  step: number;
  cosines: Array;
  distance: number[];
  spread: number[];
  spectrum: number[];
  shift_invariance: number;
  grid?: number[];
}
/**
 * Another model on the same input: its layers, each paired with a layer of the first model.
 *
 *     target           the name that the user gave; names: short names of both models, the first model's first
 *     layers           one per layer of the first model, with its sequence indices; None where no layer has these rows and heads
 *     total_variation  of the weights of two heads: mean over rows of half the sum of |weight − weight|, 0 to 1; empty for no pair
 */
export interface SideBySide {
  target: string;
  names: string[];
  model: string;
  parameters: number;
  dtype: string;
  layers: (AttentionLayer | null)[];
  total_variation: number[][];
}
/**
 * What a served page may request of the model: /rerun?order=2,0,1&offset=100 responds with the Heads of another run.
 *
 *     sequence    index of the sequence whose tokens are permuted or shifted
 *     no_shuffle  why its tokens cannot be permuted; empty where they can. no_shift: why its positions cannot be shifted
 */
export interface RerunOptions {
  sequence: number;
  no_shuffle?: string;
  no_shift?: string;
}
/**
 * A run on permuted or shifted tokens, and how the weights changed.
 *
 *     run              its number: /head responds for it with &run=R
 *     order            for each position the token of the first run that has it now; empty: unchanged. offset: added to every position
 *     max_differences  of each layer: largest |weight − weight| of any head between this run and the first, permuted as the tokens are
 *     rounding_floors  the change that rounding can cause
 */
export interface Rerun {
  run: number;
  sequence: number;
  order: number[];
  offset: number;
  max_differences: number[];
  rounding_floors: number[];
}
/**
 * What the model predicts in the recorded pass: the most probable outputs and their probabilities.
 *
 *     kind       class: one prediction for the whole input; next: the next token, after each token of a sequence
 *     sequence   index of that sequence; first_row: the token of the first row
 *     names      all predictions, each once
 *     indices    [P, A] into names, the most probable first; probabilities: the same shape. P is 1 for a class
 */
export interface Predictions {
  kind: "class" | "next";
  names: string[];
  indices: Array;
  probabilities: Array;
  sequence?: number;
  first_row?: number;
}
/**
 * How one sequence of words attends to another: of each cross-attention layer the mean of its heads' weights.
 *
 *     layers   their indices, the first layer first; weights [L, N, M]; None: too many to store
 */
export interface CrossAlignment {
  query_sequence: number;
  key_sequence: number;
  layers: number[];
  weights?: Array | null;
}
/**
 * What a page of heads may request of the model, and what was computed so far.
 *
 *     answer    next: the token after each one; class: of the whole input; vector: the output, the mean where each token has one
 *     sequence  index of the sequence of the tokens that the answer follows
 *     second    text: a person writes the second input; choice: it is one of `choices`; none
 */
export interface InterventionOptions {
  answer: "class" | "next" | "vector";
  sequence: number;
  second?: "choice" | "none" | "text";
  choices?: string[];
  effects?: InterventionEffect[];
  rankings?: RankedHeads[];
}
/**
 * The response to /effect?changes=C,C&after=N&second=S: the answer before and after the changes.
 *
 *     changes, after, other   what was asked: `after` is the token whose next token is predicted, `other` names the second input
 *     largest, cosine         largest change of a number of the output, and the cosine of the outputs
 *     passes                  forward passes that it took, beside the unchanged one
 *     code                    the changes in plain torch; empty where there is no such text, for the reason `no_code`
 *     setup                   the lines that make the variables which the text reads
 */
export interface InterventionEffect {
  changes: string[];
  after: number;
  other: string;
  rows: AnswerRow[];
  largest: number;
  cosine: number;
  passes: number;
  code: string;
  setup: string;
  no_code?: string;
  second?: SecondInput | null;
}
/**
 * One number of the answer, unchanged, after the changes, and for the second input.
 *
 *     id      of the token or the class; -1 for a cosine
 *     before  a probability; for vectors a cosine
 */
export interface AnswerRow {
  id: number;
  name: string;
  before: number;
  after: number;
  second?: number | null;
}
/**
 * Another input of the model, whose values replace those of the first.
 *
 *     no_patch  why they cannot; empty where they can
 */
export interface SecondInput {
  sequence: TokenSequence;
  no_patch?: string;
}
/**
 * The response to /rank?by=B&layer=L&after=N&answer=A&second=S: each head of a layer changed alone.
 *
 *     effects  change of the metric by each head; before: the metric unchanged
 *     metric   log-probability, in nats, of the answer of this name; or a cosine, which has no name
 *     calls    forward calls of the model; copies: of the input in one call
 */
export interface RankedHeads {
  by: "mean" | "patch" | "zero";
  layer: number;
  after: number;
  answer: number;
  other: string;
  metric: string;
  name: string;
  before: number;
  effects: number[];
  calls: number;
  copies: number;
  notes?: string[];
}
/**
 * A page of masks: one sentence, one small model.
 *
 *     words      of the sentence; bos: the start token before them in training
 *     model      what the model is, in words
 *     parameters how many numbers it learns
 *     heads      of the recorded attention
 *     rules      masks that can be chosen and joined; patterns: those with a name
 *     pool       numbers that the rules' programs share
 *     examples   examples of the sentence under the causal mask
 *     influence  [layers, windows, layers + 1, words]: for a model of this many layers and this window, the Frobenius norm of the
 *                Jacobian of the last word's output with respect to each word, before the first layer, after it, and so on; 0
 *                beyond the last layer
 *     decoding   steps by window: of 1 word, of 2 words, ...; the last has no window
 *     cached_multiply_adds  multiply-adds of one cached step that reads 1 key, 2 keys, ...; counted by torch while it ran
 *     full_multiply_adds  multiply-adds of a pass over 1 token, 2 tokens, ...
 *     token_multiply_adds  multiply-adds of one token in all layers but for its pairs with others; pair_multiply_adds: of one pair
 */
export interface Masks {
  version?: number;
  title: string;
  summary: string;
  words: string[];
  bos: string;
  model: string;
  parameters: number;
  heads: number;
  seed: number;
  rules: Rule[];
  patterns: Pattern[];
  pool: {
    [k: string]: Array;
  };
  examples: TrainingExample[];
  influence: Array;
  decoding: DecodingStep[][];
  cached_multiply_adds: number[];
  full_multiply_adds: number[];
  token_multiply_adds: number;
  pair_multiply_adds: number;
  notes?: string[];
}
/**
 * One mask, and the program of the first layer's attention under it.
 *
 *     allowed_reason  why a query may attend to a key, as a sentence with {query}, {key} and {n} in it; masked_reason: why it may not
 *     mask     id of the step that computes the mask; empty for a full mask
 *     weights  id of the attention weights
 */
export interface Rule {
  name: string;
  title: string;
  summary: string;
  allowed_reason: string;
  masked_reason: string;
  program: ProgramRecord;
  mask: string;
  weights: string;
  knob?: Knob | null;
}
/**
 * A number that a rule takes, from `low` to `high`.
 *
 *     sets       what the page changes: "parameter" of a step, "document" (words from this one on belong to a second text) or
 *                "valid" (this many padding positions before the words)
 *     op         whose parameter it is, in every step of the program that has this operation, and the parameter's name; empty for
 *                the other two
 */
export interface Knob {
  label: string;
  low: number;
  high: number;
  start: number;
  sets: "document" | "parameter" | "valid";
  op?: string;
  parameter?: string;
}
/**
 * A mask that people know by name: one rule, or two joined by "and" or "or".
 */
export interface Pattern {
  name: string;
  title: string;
  summary: string;
  rules: string[];
  join?: "and" | "or";
}
/**
 * One training example of the sentence: its first `prefix_length` tokens, and the word that comes next.
 *
 *     full_pass_loss  cross-entropy of that word in one pass over the whole sentence
 *     own_pass_loss  the same in a pass over these tokens only
 */
export interface TrainingExample {
  prefix_length: number;
  next: string;
  full_pass_loss: number;
  own_pass_loss: number;
}
/**
 * One step of decoding with a cache.
 *
 *     cached_positions  positions whose keys and values are in the cache before the step
 *     evicted_positions  positions removed after it, since no later query attends to them
 *     difference  largest |cached step's output - same row of the full pass|
 */
export interface DecodingStep {
  cached_positions: number[];
  evicted_positions: number[];
  difference: number;
}
/**
 * A page of attention on a graph.
 *
 *     trace    the program that the page runs: its leaf `roles["edges"]` [N, N] is True where a row receives from a column
 *     roles    ids of the values that the page shows: words, edges, queries, keys, values, scores, weights, messages, output,
 *              and sent and given, the weights and values as they enter the messages
 *     start    name of the initial graph
 *     reasons  why a transformer is a graph network
 *     differences  what a transformer has and a plain graph network does not
 */
export interface Messages {
  version?: number;
  title: string;
  summary: string;
  words: string[];
  width: number;
  program: ProgramRecord;
  roles: {
    [k: string]: string;
  };
  graphs: ExampleGraph[];
  start: string;
  reasons: Reason[];
  differences: Reason[];
  notes?: string[];
}
/**
 * A ready graph over the words. edges: pairs (sender, receiver), by the indices of the words.
 */
export interface ExampleGraph {
  name: string;
  title: string;
  text: string;
  edges: number[][];
}
/**
 * One step of an answer.
 *
 *     claim         a short sentence; text: why it is so
 *     method        how it was measured; empty where nothing was measured
 *     measurements  numbers, each with the function that computes it
 *     command       command that repeats the measurement
 */
export interface Reason {
  claim: string;
  text: string;
  method?: string;
  measurements?: Fact[];
  figures?: Figures | null;
  command?: string;
}
/**
 * A small table of measured numbers, one list a row. corner: heading of the row names.
 */
export interface Figures {
  corner: string;
  columns: string[];
  rows: string[];
  numbers: number[][];
}
/**
 * A page of costs.
 *
 *     sizes    that can be chosen; all others are those of a preset
 *     speeds   None where nothing was measured
 */
export interface Cost {
  version?: number;
  title: string;
  summary: string;
  sizes: Size[];
  parts: CostPart[];
  memory: MemoryItem[];
  presets: Preset[];
  speeds?: Speeds | null;
  notes?: string[];
}
/**
 * A size that a person chooses: its letter in formulas, its name, from where to where, and the places of its slider.
 */
export interface Size {
  letter: string;
  name: string;
  low: number;
  high: number;
  stops?: number[];
}
/**
 * A part of a model, and what it costs.
 *
 *     per_layer   whether every layer has one
 *     full_pass   multiply-adds of one pass over B sequences of N tokens
 *     decoding_step  of one token more for each sequence, which asks N tokens, itself among them; the others' keys and values are kept
 *     parameters  how many numbers it learns
 *     counted     False where `full_pass` and `decoding_step` are no multiply-adds but exponentials, which no counter of products sees
 */
export interface CostPart {
  name: string;
  group: "attention" | "ends" | "feed-forward";
  about: string;
  per_layer?: boolean;
  full_pass?: CostTerm[];
  decoding_step?: CostTerm[];
  parameters?: CostTerm[];
  counted?: boolean;
}
/**
 * A product: `coefficient` times the size of each letter in `symbols`; "NDD" is N·D². requires: features that it needs.
 */
export interface CostTerm {
  coefficient: number;
  symbols: string;
  requires?: string[];
}
/**
 * Numbers that have to be held in memory: how many, and the bytes of one; None: of the format that is chosen.
 */
export interface MemoryItem {
  name: string;
  about: string;
  numbers: CostTerm[];
  bytes?: number | null;
}
/**
 * A known model.
 *
 *     sizes  by letter: B sequences, N tokens, D width, H heads, G heads of keys and values, F features inside the feed-forward,
 *            L layers, V words or classes, P numbers of a patch, T places in a learned table, E tokens beside those of the input
 *     features  what `Term.only` asks for
 */
export interface Preset {
  name: string;
  title: string;
  sizes: {
    [k: string]: number;
  };
  features: string[];
}
/**
 * Times of this machine: medians over `rounds`; in a round each part runs once.
 */
export interface Speeds {
  timings: Timing[];
  rates: Rate[];
  rounds: number;
  dtype: string;
  threads: number;
  cpu: string;
  torch: string;
}
/**
 * One part of one layer, run on this machine: one sequence of n tokens, d wide.
 *
 *     part           "attention" with torch's fused kernel, "step by step" with the table of weights, "feed-forward"
 *     heads          0 for a feed-forward
 *     multiply_adds  as torch counts them while the part runs step by step
 *     median, low, high  milliseconds: the middle, and the quartiles
 *     fitted         whether the rate of this part was fitted to it
 */
export interface Timing {
  part: "attention" | "feed-forward" | "step by step";
  n: number;
  d: number;
  heads: number;
  multiply_adds: number;
  median: number;
  low: number;
  high: number;
  fitted?: boolean;
}
/**
 * What fits the times of a part best: milliseconds before the first multiply-add, and multiply-adds in a millisecond.
 */
export interface Rate {
  part: "attention" | "feed-forward" | "step by step";
  overhead: number;
  rate: number;
}
/**
 * A page of tokens: of what was given, None for the rest.
 */
export interface Tokenised {
  version?: number;
  title: string;
  summary: string;
  notes?: string[];
  sound?: SoundTokens | null;
  picture?: PictureTokens | null;
  film?: FilmTokens | null;
}
/**
 * A sound and its cuts.
 *
 *     rate     samples a second
 *     samples  [T]; a sample is this times `unit`: whole numbers where the sound has 16 bits
 *     silent   no sample differs from another
 *     note     what was done to it before it was cut; empty for nothing
 */
export interface SoundTokens {
  name: string;
  rate: number;
  samples: Array;
  unit: number;
  silent: boolean;
  cuts: SoundCut[];
  note?: string;
}
/**
 * One length of window and one hop, and the three kinds of token that they make.
 *
 *     window, hop            in samples; window_ms, hop_ms: in milliseconds, as they were asked for
 *     frame_positions        [N, 1] in seconds: raw frames of a window's length, one beside the next
 *     mel, mel_positions            [M, mels] natural logarithms of energies, one token each hop, and [M, 1] in seconds
 *     patch, patch_positions      windows and bands of a spectrogram patch, and [P, 2] in seconds and bands; none for a short sound
 */
export interface SoundCut {
  window: number;
  hop: number;
  window_ms: number;
  hop_ms: number;
  frame_positions: Array;
  mel: Array;
  mel_positions: Array;
  bands: Bands;
  patch?: number[];
  patch_positions?: Array | null;
}
/**
 * The mel filters, which sum the energies of frequencies: triangles, stored without their zeros.
 *
 *     step     hertz from one frequency of the Fourier transform to the next; the first is 0
 *     begins   [mels], number of the first frequency that a band hears; counts: how many it hears
 *     weights  of all bands, one after the other
 *     floor    energies below it count as it before the logarithm is taken
 */
export interface Bands {
  step: number;
  begins: number[];
  counts: number[];
  weights: Array;
  floor: number;
}
/**
 * A picture and its cuts.
 *
 *     size     rows and columns of pixels
 *     pixels   base64 of its bytes, row by row, three a pixel; a number of a token is a byte / 255
 *     outputs  what each output of a linear map says
 */
export interface PictureTokens {
  name: string;
  size: number[];
  pixels: string;
  outputs: string[];
  cuts: PictureCut[];
  note?: string;
}
/**
 * One way to cut a picture: a token for each cell of a grid, row by row.
 *
 *     side           of a cell in pixels; grid: rows and columns; numbers: of one token
 *     rows, columns  first pixel and the one after the last that a row's, a column's tokens read: they overlap for a stem
 */
export interface PictureCut {
  kind: "patches" | "pixels" | "stem";
  side: number;
  grid: number[];
  numbers: number;
  rows: number[][];
  columns: number[][];
  projection?: Projection | null;
}
/**
 * A linear map of the numbers of a token to a few, made by hand so that a person can read each.
 *
 *     weight  [numbers, outputs]
 *     output  [N, outputs]: x @ weight, computed in float64
 *     error   largest |x @ weight − convolution with the same numbers|, by the largest output, both in float64
 */
export interface Projection {
  weight: Array;
  output: Array;
  error: number;
}
/**
 * A film and its cuts.
 *
 *     size     frames, rows and columns
 *     fps      frames a second
 *     frames   base64 of their bytes, frame by frame, as the pixels of a picture
 *     outputs  what each output of a linear map says
 */
export interface FilmTokens {
  name: string;
  size: number[];
  fps: number;
  frames: string;
  outputs: string[];
  cuts: FilmCut[];
  note?: string;
}
/**
 * One size of tubelet: frames, rows and columns.
 *
 *     grid  how many along each axis; numbers: of one token; positions: [N, 3] centre in seconds, row and column counted in tubelets
 */
export interface FilmCut {
  size: number[];
  grid: number[];
  numbers: number;
  positions: Array;
  projection: Projection;
}
/**
 * A page of a molecule.
 *
 *     atoms   atomic numbers
 *     frames  [F, N, 3] in angstrom, each about the middle of its atoms; captions: a line for each
 *     frame   the first that is shown, counted from 0
 *     axis    rotation axis of the recorded curves; angles: in degrees
 */
export interface Molecule {
  version?: number;
  title: string;
  summary: string;
  file: string;
  elements: Species[];
  atoms: number[];
  frames: Array;
  captions: string[];
  frame: number;
  axis: number[];
  angles: number[];
  solvers: Solver[];
  notes?: string[];
}
/**
 * How atoms of one kind are drawn. radius: covalent, in angstrom; colour: #rrggbb.
 */
export interface Species {
  number: number;
  symbol: string;
  name: string;
  radius: number;
  colour: string;
}
/**
 * A model on the page.
 *
 *     group    equivariant to reflections too ("E(3)") or to rotations ("SE(3)"); "none": a transformer that reads raw coordinates
 *     trained  whether its weights were trained; else they are random from `seed`
 *     unit     of energies; empty where there is none
 *     start    the output that Python computed for the first displayed frame
 *     floors   rounding floors in float64, from float32 errors at some rotations: of the energy and of an atom's energy, in the unit;
 *              of forces, relative to their size
 *     energies, forces  |E(Rx) - E(x)| in the unit, and |F(Rx) - R F(x)| / |F(x)|, at the record's `angles` about `axis`
 *     computation  from `positions` [N, 3] to `energy`, `each` [N], `forces` [N, 3], `weights` [layers, heads, N, N] and, where
 *              there are some, `vectors` [N, 3, C]
 */
export interface Solver {
  name: string;
  title: string;
  about: string;
  group: "E(3)" | "SE(3)" | "none";
  trained: boolean;
  seed: number | null;
  unit: string;
  parameters: number;
  layers: number;
  heads: number;
  vectors: number;
  start: SolverOutput;
  floors: {
    [k: string]: number;
  };
  energies: number[];
  forces: number[];
  computation: Computation;
}
/**
 * The output of a model for one geometry: energy in the model's unit, per atom [N], forces [N, 3] per angstrom.
 */
export interface SolverOutput {
  energy: number;
  atom_energies: number[];
  forces: Array;
}
/**
 * What `equiscope.parity` found.
 *
 *     version    of the record; another version has other fields
 *     a, b       titles of the two sides
 *     verdict    the worst of the outputs
 *     step_a     the first step whose result has no equal on the other side, of A; step_b: of B
 *     cause      the difference that explains it, in words; kind: its name in `equiscope.audit.CAUSES`; both empty where no
 *                listed cause reproduces it
 *     evidence   what was computed to confirm the cause; where there is none, which changes were tried
 *     further    differences behind the first one, in the order in which A computes
 *     rows       a comparison for each output
 *     aligned    values of A with an equal value in B; values: of A, in all; ties: of the aligned ones, values that order decided
 *     seed       as requested; seconds: that it took; versions: of equiscope, torch and Python; notes: in sentences
 *     layers     both sides step by step, with blocks of their numbers; of long programs the first steps
 *     weights    of a quantized model: its weight matrices in the order in which they are read
 *     drift      of models that differ in their precision alone: how far apart they are after each layer
 *     answers    of these: how many answers of each output change
 */
export interface Parity {
  version?: number;
  a: string;
  b: string;
  verdict: "approximate" | "broken" | "holds" | "not applicable" | "undecided";
  rows: ParityRow[];
  step_a?: ParityStep | null;
  step_b?: ParityStep | null;
  kind?: string;
  cause?: string;
  evidence?: string;
  further?: ParityDifference[];
  aligned?: number;
  values?: number;
  ties?: number;
  seed?: number;
  seconds?: number;
  versions?: {
    [k: string]: string;
  };
  notes?: string[];
  layers?: ParityLayer[];
  weights?: ParityWeight[];
  drift?: ParityDrift[];
  answers?: ParityAnswers[];
}
/**
 * One comparison: an output of the two models, or the last pair of values that agree.
 *
 *     name     of the output; verdict: holds, approximate, broken, not applicable or undecided
 *     error    relative difference in float64, where both run in it; error32: in float32
 *     floor    the rounding error of one pass of A in float32
 *     a, b     the step on each side
 *     accepted  the reason in the baseline file for which a difference does not fail
 *     note     how the two tensors were aligned, or why nothing was decided
 */
export interface ParityRow {
  name: string;
  verdict: "approximate" | "broken" | "holds" | "not applicable" | "undecided";
  error?: number | null;
  error32?: number | null;
  floor?: number | null;
  a?: ParityStep | null;
  b?: ParityStep | null;
  accepted?: string;
  note?: string;
}
/**
 * A step of one of the two implementations.
 *
 *     module     path of the module; empty for the model itself
 *     operation  as torch or ONNX calls it; empty for a tensor of a dump
 *     value      name of the result in the program; shape: its shape
 */
export interface ParityStep {
  module: string;
  operation: string;
  value: string;
  shape?: number[];
}
/**
 * A difference behind the first one.
 *
 *     kind, cause, evidence  as of the first difference
 *     step_a, step_b         the first step that differs once A goes on from B's numbers of the earlier differences
 *     repeated               modules of A in which the same difference was found again
 */
export interface ParityDifference {
  kind: string;
  cause: string;
  evidence: string;
  step_a?: ParityStep | null;
  step_b?: ParityStep | null;
  repeated?: string[];
}
/**
 * A layer of A beside that of B.
 *
 *     a, b    paths of the modules; empty for steps outside the layers
 *     paired  steps with an equal one on the other side; differs: whether the first difference is here; pairs: in order
 */
export interface ParityLayer {
  a: string;
  b: string;
  paired: number;
  differs?: boolean;
  pairs?: ParityPair[];
}
/**
 * A step of A beside that of B.
 *
 *     a, b               the steps; None where the other side has none that belongs to it
 *     state              equal up to rounding; "differs": the first step that differs; "unpaired": no equal value on the other side
 *     error              relative difference of the numbers, in the precision in which the sides were aligned
 *     row, column        of the first number that is printed: the last axis is a row of numbers, all other axes are rows
 *     numbers_a          a block of A's numbers; None: a number that is not finite
 *     numbers_b          the same block of B's; empty where it prints the same
 */
export interface ParityPair {
  state: "differs" | "equal" | "unpaired";
  a?: ParityStep | null;
  b?: ParityStep | null;
  error?: number | null;
  row?: number;
  column?: number;
  numbers_a?: (number | null)[][];
  numbers_b?: (number | null)[][];
}
/**
 * A weight matrix of a quantized model beside that of the other one.
 *
 *     a, b    names; empty where the other side has none that is similar
 *     module  path in the quantized model
 *     state   "quantized": the nearest numbers of a grid; "equal"; "other": another weight, or not the nearest numbers
 *     bits    that the integers of one scale need; None where the numbers are on no grid
 *     scales  what shares one
 *     error   relative difference; steps: the largest distance of a number, in steps of the grid
 *     note    what is wrong with the numbers
 */
export interface ParityWeight {
  a: string;
  b: string;
  module: string;
  state: "equal" | "other" | "quantized";
  bits?: number | null;
  scales?: string;
  error?: number | null;
  steps?: number | null;
  note?: string;
}
/**
 * How far two models that differ in their precision are apart.
 *
 *     layer  path in A; error: relative difference at its end
 */
export interface ParityDrift {
  layer: string;
  error: number;
}
/**
 * How many answers of an output change. An answer is the largest number on the last axis.
 *
 *     output   its name; count: answers; changed: those that are others in B
 *     rank     the worst rank in B of A's top answer, counted from 1
 *     error    relative difference of the numbers
 */
export interface ParityAnswers {
  output: string;
  count: number;
  changed: number;
  rank: number;
  error: number;
}
/**
 * A page of attention among patches.
 *
 *     size      rows and columns of the photograph in pixels; side: of a patch; grid: rows and columns of patches
 *     credit    source and licence of the photograph; empty for the user's own
 *     features  names of the numbers of a patch
 *     unit      patches in one unit of position
 *     programs  one for each scheme, with roles bytes, pixels, features, input, queries, keys, values, scores,
 *               weights, added, output; the leaf "bytes" holds [N, 3·side·side] bytes, by channel, row, column
 *     regions   may be empty: then the page states no shares
 *     shares    as Python measured them, for every scheme and region
 *     start     the patch that is selected at first
 */
export interface Patches {
  version?: number;
  title: string;
  summary: string;
  name: string;
  credit: string;
  size: number[];
  side: number;
  grid: number[];
  features: string[];
  unit: number;
  schemes: SchemeVariant[];
  programs: SchemeProgram[];
  pool: {
    [k: string]: Array;
  };
  regions: Region[];
  shares: Share[];
  start: number;
  notes?: string[];
}
/**
 * The patches of one thing in the photograph, labelled by hand. patches: their indices, row by row.
 */
export interface Region {
  name: string;
  title: string;
  patches: number[];
}
/**
 * Of a region under a scheme: its share of the area, and the mean share of attention that its own patches give it.
 */
export interface Share {
  scheme: string;
  region: string;
  area: number;
  attention: number;
}
/**
 * A page of three networks.
 *
 *     symbols         names of the symbols that a token can be
 *     example         [length] a text: numbers of its symbols
 *     trained_length  the longest text that was trained on
 *     timed_lengths   lengths of the texts whose pass was timed: CPU time of one thread, one sequence, networks `timed_width` wide
 */
export interface Reach {
  version?: number;
  title: string;
  summary: string;
  symbols: string[];
  example: number[];
  length: number;
  trained_length: number;
  networks: ReachNetwork[];
  timed_lengths: number[];
  timed_width: number;
  rounds: number;
  dtype: string;
  cpu: string;
  torch: string;
  notes?: string[];
}
/**
 * One network.
 *
 *     about      one sentence that says how it combines tokens
 *     influence  by weights, [length, length] in float32: row i, column j is the change of the output at token j when the symbol of
 *                token i, the marked one, is replaced, relative to the size of the output; exactly 0 where nothing changes
 *     right      by weights and seed, [length] each: the share of right answers at the last token, by how many tokens back the marked
 *                one is; the tables are of the first seed
 *     steps      matrix products that wait for each other, the longest chain, for each timed length
 *     times      lower quartile, median and upper quartile in milliseconds, for each timed length
 */
export interface ReachNetwork {
  name: string;
  title: string;
  about: string;
  parameters: number;
  influence: {
    [k: string]: Array;
  };
  right: {
    [k: string]: number[][];
  };
  steps: number[];
  times: number[][];
}
/**
 * A page of what decides one answer.
 *
 *     answer       of the model, as text; empty where the metric is of no single answer
 *     metric       what is explained, in words; value: its number in the unchanged run
 *     probability  of the answer; None where the output is no distribution
 *     sequence     the tokens of the input; tokens: those that were removed; removed: change of the metric for each
 *     read         tokens at which the answer is read: of `answers`, or of `sequence` where there is none
 *     answers      tokens after which the model answers, where they are not those of the input
 *     removal      what removal means here, in a sentence
 *     scores       of the same tokens, by cheap methods
 *     lens         a row for each layer, may be empty; lens_note: what read the streams, and the limits
 *     lens_names   labels of the answers in `lens_best`; lens_best: [L, N] for the answer after each token; lens_probability: of each;
 *                  lens_first: the first token shown; None for one answer
 *     parts        in the order of the forward pass, may be empty; parts_note: what was held fixed; parts_error: |sum − value|
 *     parts_correlation  Spearman's, of the shares with the drop of the metric, for parts that have both
 *     drawing      of each atom of a molecule two coordinates in its plane of largest spread, in its unit of length; else empty
 *     bonds        pairs of atoms
 *     chosen       index of the answer among the outputs; candidates: the most probable answers here
 *     served       whether a server computes the page for other answers, and after other tokens
 *     calls        of the model, for everything
 */
export interface Attribution {
  version?: number;
  title: string;
  model: string;
  answer: string;
  metric: string;
  value: number;
  probability?: number | null;
  sequence: TokenSequence;
  tokens: number[];
  removed: number[];
  read: number[];
  answers?: TokenSequence | null;
  removal: string;
  scores: TokenScore[];
  lens?: LensLayer[];
  lens_note?: string;
  lens_names?: string[];
  lens_best?: Array | null;
  lens_probability?: Array | null;
  lens_first?: number;
  parts?: LogitShare[];
  parts_note?: string;
  parts_error?: number;
  parts_correlation?: number | null;
  drawing?: number[][];
  bonds?: number[][];
  chosen?: number | null;
  candidates?: AnswerCandidate[];
  served?: boolean;
  calls?: number;
  notes?: string[];
}
/**
 * A number for each token that a cheap method gives, and how well it predicts the effect of removal.
 *
 *     explanation  how it is computed
 *     signed       whether a positive number means that the token raises the metric
 *     correlation  Spearman's, of numbers with a sign with the drop of the metric, of others with the size of its change; None where
 *                  one of the two does not vary
 */
export interface TokenScore {
  name: string;
  explanation: string;
  signed: boolean;
  values: number[];
  correlation?: number | null;
}
/**
 * What the last part of the model answers to the residual stream of one layer.
 *
 *     value        the metric that is read
 *     best         its most probable answer; probability, rank: of the model's answer, 1 for the most probable
 *     agreement    share of all rows of the output whose most probable answer is the model's
 *     divergence   KL(model ‖ layer) in nats, the mean over rows
 *                  None, and best empty, where the output is no distribution
 */
export interface LensLayer {
  name: string;
  value: number;
  best?: string;
  probability?: number | null;
  rank?: number | null;
  agreement?: number | null;
  divergence?: number | null;
}
/**
 * A part of the model and its share of the metric.
 *
 *     kind     embeddings, head, attention, feed-forward, bias, block, offset or atom
 *     block    number of its block; head: of the head
 *     removed  change of the metric when this part alone is set to 0, or the atom is silent; None: not measured
 */
export interface LogitShare {
  name: string;
  share: number;
  kind: string;
  block?: number | null;
  head?: number | null;
  removed?: number | null;
}
/**
 * Another answer that the model could give here. index: among its outputs.
 */
export interface AnswerCandidate {
  index: number;
  name: string;
  probability: number;
}
/**
 * One run of the guard: how it looked, and the smallest counterexample.
 *
 *     version     of the record; another version has other fields
 *     target      as it was named
 *     scorer      whether it is a function that returns one number for each token
 *     vocabulary  number of ids
 *     verdict     holds where no counterexample was found
 *     kind        of the counterexample: "future": an output depends on later tokens; "batch": on other sequences; "state": on earlier
 *                 calls; "random": on chance; "sum": probabilities sum to more than one; empty where it holds
 *     sentence    the counterexample in words; empty where it holds
 *     calls       of the model; lengths: tokens of these calls; futures: at how many positions the later tokens were replaced
 *     tokens      the input of the counterexample; changed: indices of the tokens that were replaced in it
 *     other       the input with them replaced
 *     position    whose output changes
 *     seed        of the tokens; versions: of equiscope, torch and Python
 *     notes       what could not be measured
 */
export interface Guarded {
  version?: number;
  target: string;
  scorer: boolean;
  vocabulary: number;
  verdict: "broken" | "holds";
  kind?: ("batch" | "future" | "random" | "state" | "sum") | "";
  sentence?: string;
  calls?: number;
  lengths?: number[];
  futures?: number;
  tokens?: number[];
  changed?: number[];
  other?: number[];
  position?: number | null;
  seed?: number;
  versions?: {
    [k: string]: string;
  };
  notes?: string[];
}
/**
 * The evaluation of a run.
 *
 *     run, other  the folder of the run, and of a second one on the same data
 *     weights     "best" on the validation part, or "last"
 *     data        files that were measured on, where they are not those of the run
 *     signatures  how a metric was computed, where its name does not say it
 */
export interface EvaluationRecord {
  version?: number;
  run: string;
  other?: string;
  task: string;
  weights: string;
  parts: PartEvaluation[];
  data?: DataFile[];
  notes?: string[];
  signatures?: {
    [k: string]: string;
  };
}
/**
 * The metrics of one part of the data.
 *
 *     summary    the decisive metric beside the simple models, in a sentence
 *     worst      the examples with the largest errors; examples: all of them, in the order of the data
 *     classes, confusion  how often an example of class i (row) is answered with class j (column)
 *     numbers    true and predicted numbers of all examples
 *     differences  from a second run on the same examples
 *     simple     metrics of simple models on the same examples, by their name: the majority, a linear model
 *     warnings   such as examples that are far from the training part
 */
export interface PartEvaluation {
  part: string;
  summary?: string;
  metrics: MetricValue[];
  worst?: AnsweredExample[];
  examples?: AnsweredExample[];
  classes?: string[];
  confusion?: number[][];
  numbers?: PredictedNumber[];
  differences?: MetricDifference[];
  simple?: {
    [k: string]: {
      [k: string]: number;
    };
  };
  warnings?: string[];
}
/**
 * A metric. low, high: its 95 % interval over the examples; None where it has none. unit: empty for a plain number.
 */
export interface MetricValue {
  name: string;
  value: number | null;
  low?: number | null;
  high?: number | null;
  unit?: string;
}
/**
 * An example: what it is, what the model answers, what is right, and how wrong that is.
 *
 *     more  further values, such as probabilities by class
 *     text, picture  the input where it is shown: a text, or the data: URL of a PNG; of a sound, its spectrogram
 */
export interface AnsweredExample {
  name: string;
  answer: string;
  target: string;
  error: number;
  more?: {};
  text?: string;
  picture?: string;
}
/**
 * A number that is predicted: true and predicted values of each example, in `unit`.
 */
export interface PredictedNumber {
  name: string;
  unit?: string;
  true: number[];
  predicted: number[];
}
/**
 * The metric of the first run minus that of the second, on the same examples, with its 95 % interval.
 *
 *     p  McNemar's exact p-value that two rates are equal; None for other metrics
 */
export interface MetricDifference {
  name: string;
  first: number;
  second: number;
  difference: number;
  low?: number | null;
  high?: number | null;
  p?: number | null;
}

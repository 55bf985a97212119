// A mask of one rule or two as a program: the attention program of the first rule, with the mask steps of the second added.
import type { LeafRecord, Masks, Rule, StepRecord, ProgramRecord } from "../../core/contract";
import { COLOURS, type Name } from "../../core/names";
import { leavesOf, poolOf, Program } from "../../core/program";
import { aligned, at, tensor, type Tensor } from "../../core/tensor";
import { type Chosen, type MasksState, ruleOf } from "./state";

/** One rule: the id of its own mask (True = may attend), and the steps that compute it. */
export interface Part {
  rule: Rule;
  n: number;
  visible: string;
  steps: StepRecord[];
}

/** Attention under the chosen mask. before: the number of padding positions before the words. */
export interface MaskedAttention {
  programRecord: ProgramRecord;
  program: Program;
  weights: string;
  visible: string;
  parts: Part[];
  before: number;
  names: Name[];
}

export function maskedAttention(record: Masks, state: MasksState): MaskedAttention {
  const parts = maskingRules(record, state).map(({ name, n }, i) => part(ruleOf(record, name), n, i ? "2:" : ""));
  const { rule } = parts[0] ?? { rule: ruleOf(record, "full") };
  const { programRecord, visible } = parts.length > 1 ? both(parts, state.join) : { programRecord: numbered(rule, parts[0]?.n ?? 0), visible: parts[0]?.visible ?? "" }; // prettier-ignore
  const before = parts.find((one) => one.rule.knob?.sets === "valid")?.n ?? 0;
  const names = [
    ...Array.from({ length: before }, () => ({ text: "pad", colour: -1 })),
    ...record.words.map((text, i) => ({ text, colour: i % COLOURS })),
  ];
  const given = leavesOf(programRecord, poolOf(record.pool));
  const second = parts.find((one) => one.rule.knob?.sets === "document")?.n ?? record.words.length;
  const program = new Program(programRecord, new Map(programRecord.leaves.map((leaf) => [leaf.id, leafValues(leaf, given.get(leaf.id)!, before, second)]))); // prettier-ignore
  return { programRecord, program, weights: rule.weights, visible, parts, before, names };
}

/** The rules that mask something: of "all words and X" X, of "all words or X" none. */
function maskingRules(record: Masks, { rules, join }: MasksState): Chosen[] {
  const hiding = rules.filter(({ name }) => ruleOf(record, name).mask);
  return join === "or" && hiding.length < rules.length ? [] : hiding;
}

/** The rule's own program, with its number. */
function numbered({ program: programRecord, knob }: Rule, n: number): ProgramRecord {
  if (knob?.sets !== "parameter") return programRecord;
  const set = (step: StepRecord): StepRecord =>
    step.op === knob.op ? { ...step, params: { ...step.params, [knob.parameter!]: n } } : step;
  return { ...programRecord, steps: programRecord.steps.map(set) };
}

function part(rule: Rule, n: number, prefix: string): Part {
  const { steps } = numbered(rule, n);
  const wanted = new Set([rule.mask]);
  for (const step of [...steps].reverse()) if (wanted.has(step.id)) for (const input of step.inputs) wanted.add(input);
  const own = steps.filter(({ id }) => wanted.has(id));
  const known = new Set(own.map(({ id }) => id));
  const name = (id: string) => (known.has(id) ? prefix + id : id);
  const renamed = own.map((step) => ({ ...step, id: name(step.id), inputs: step.inputs.map(name) }));
  return { rule, n, visible: name(rule.mask), steps: renamed };
}

/** The first rule's program, in which the mask is what both rules allow, or one of them. */
function both([first, second]: Part[], join: "and" | "or"): { programRecord: ProgramRecord; visible: string } {
  const programRecord = numbered(first.rule, first.n);
  const place = programRecord.steps.findIndex(({ op }) => op === "mask");
  const label = join === "and" ? "mask: both rules" : "mask: either rule";
  const inputs = [first.visible, second.visible];
  const joined = { id: "joined", symbol: "M", label, axes: programRecord.steps[place].axes.slice(-2), op: join === "and" ? "both" : "either", inputs }; // prettier-ignore
  const masked = { ...programRecord.steps[place], inputs: [programRecord.steps[place].inputs[0], joined.id] };
  const more = second.rule.program.leaves.filter(({ id }) => !programRecord.leaves.some((leaf) => leaf.id === id));
  return {
    programRecord: {
      ...programRecord,
      leaves: [...programRecord.leaves, ...more],
      steps: [...programRecord.steps.slice(0, place), ...second.steps, joined, masked, ...programRecord.steps.slice(place + 1)],
    },
    visible: joined.id,
  };
}

/** A leaf's numbers with `before` padding positions in front, and a second document from word `second` on. */
function leafValues({ kind }: LeafRecord, given: Tensor, before: number, second: number): Tensor {
  const count = given.shape[0] + before;
  const each = (of: (word: number) => number): number[] => Array.from({ length: count }, (_, i) => of(i - before));
  if (kind === "content") {
    const data = new Float64Array(count * given.shape[1]);
    data.set(given.data, before * given.shape[1]);
    return before ? tensor([count, given.shape[1]], data) : given;
  }
  if (kind === "coordinate") return tensor([count, 1], each(Number));
  if (kind === "order") return tensor([count], each(Number));
  if (kind === "document")
    return tensor(
      [count],
      each((word) => Number(word >= second)),
    );
  if (kind === "valid")
    return tensor(
      [count],
      each((word) => Number(word >= 0)),
    );
  return given;
}

/** Whether a query may attend to a key by a mask of the program, which may be a row or a column. */
export function mayAttend({ program }: MaskedAttention, visible: string, query: number, key: number): boolean {
  if (!visible) return true;
  const value = program.get(visible);
  return at(value, aligned([query, key], value.shape)) > 0;
}

/** Why a query may attend to a key or not, in one sentence. */
export function reason(under: MaskedAttention, join: "and" | "or", query: number, key: number): string {
  const name = (i: number) => named(under, i);
  const able = mayAttend(under, under.visible, query, key);
  const begins = `${name(query)} ${able ? "can attend to" : "cannot attend to"} ${query === key ? "itself" : name(key)}`;
  const reasons = under.parts
    .filter((part) => join === "and" || under.parts.length < 2 || mayAttend(under, part.visible, query, key) === able)
    .filter((part) => able || mayAttend(under, part.visible, query, key) === able)
    .map((part) => {
      const seen = mayAttend(under, part.visible, query, key);
      const text = seen ? part.rule.allowed_reason : part.rule.masked_reason;
      if (query === key && text.includes("{query}")) return "it is the same position";
      return text.replaceAll("{query}", name(query)).replaceAll("{key}", name(key)).replaceAll("{n}", counted(part));
    });
  return `${begins}: ${reasons.length ? [...new Set(reasons)].join(", and ") : "no pair is masked"}.`;
}

const counted = ({ rule, n }: Part): string => (rule.knob?.sets === "document" ? String(n) : `${n} word${n === 1 ? "" : "s"}`);

/** “Love” 0, or a padding position. */
export const named = ({ names, before }: MaskedAttention, i: number): string =>
  i < before ? `padding ${i}` : `“${names[i].text}” ${i - before}`;

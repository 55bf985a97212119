// A mask of one rule or two, as a program: the traced attention of the first, with the steps of the second's mask beside its own.
import type { LeafRecord, Masks, Rule, StepRecord, ProgramRecord } from "../contract";
import { COLOURS, type Name } from "../names";
import { leavesOf, poolOf, Program } from "../program";
import { aligned, at, tensor, type Tensor } from "../tensor";
import { type Chosen, type MasksState, ruleOf } from "./state";

/** One rule's share: the value that says who may look by it alone, and the steps that made it. */
export interface Part {
  rule: Rule;
  n: number;
  visible: string;
  steps: StepRecord[];
}

/** Attention under the chosen mask. before: so many empty places stand before the words. */
export interface Under {
  programRecord: ProgramRecord;
  program: Program;
  weights: string;
  visible: string;
  parts: Part[];
  before: number;
  names: Name[];
}

export function under(record: Masks, state: MasksState): Under {
  const parts = live(record, state).map(({ name, n }, i) => part(ruleOf(record, name), n, i ? "2:" : ""));
  const { rule } = parts[0] ?? { rule: ruleOf(record, "full") };
  const { programRecord, visible } = parts.length > 1 ? both(parts, state.join) : { programRecord: numbered(rule, parts[0]?.n ?? 0), visible: parts[0]?.visible ?? "" }; // prettier-ignore
  const before = parts.find((one) => one.rule.knob?.sets === "valid")?.n ?? 0;
  const names = [
    ...Array.from({ length: before }, () => ({ text: "empty", colour: -1 })),
    ...record.words.map((text, i) => ({ text, colour: i % COLOURS })),
  ];
  const given = leavesOf(programRecord, poolOf(record.pool));
  const second = parts.find((one) => one.rule.knob?.sets === "document")?.n ?? record.words.length;
  const program = new Program(programRecord, new Map(programRecord.leaves.map((leaf) => [leaf.id, filled(leaf, given.get(leaf.id)!, before, second)]))); // prettier-ignore
  return { programRecord, program, weights: rule.weights, visible, parts, before, names };
}

/** The rules that hide something: of "all words and X" X, of "all words or X" none. */
function live(record: Masks, { rules, join }: MasksState): Chosen[] {
  const hiding = rules.filter(({ name }) => ruleOf(record, name).visible);
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
  const wanted = new Set([rule.visible]);
  for (const step of [...steps].reverse()) if (wanted.has(step.id)) for (const input of step.inputs) wanted.add(input);
  const own = steps.filter(({ id }) => wanted.has(id));
  const known = new Set(own.map(({ id }) => id));
  const name = (id: string) => (known.has(id) ? prefix + id : id);
  const renamed = own.map((step) => ({ ...step, id: name(step.id), inputs: step.inputs.map(name) }));
  return { rule, n, visible: name(rule.visible), steps: renamed };
}

/** The first rule's program, in which the mask is what both rules allow, or one of them. */
function both([first, second]: Part[], join: "and" | "or"): { programRecord: ProgramRecord; visible: string } {
  const programRecord = numbered(first.rule, first.n);
  const place = programRecord.steps.findIndex(({ op }) => op === "mask");
  const label = join === "and" ? "who may look, by both" : "who may look, by one of two";
  const inputs = [first.visible, second.visible];
  const made = { id: "joined", symbol: "M", label, axes: programRecord.steps[place].axes.slice(-2), op: join === "and" ? "both" : "either", inputs }; // prettier-ignore
  const masked = { ...programRecord.steps[place], inputs: [programRecord.steps[place].inputs[0], made.id] };
  const more = second.rule.program.leaves.filter(({ id }) => !programRecord.leaves.some((leaf) => leaf.id === id));
  return {
    programRecord: {
      ...programRecord,
      leaves: [...programRecord.leaves, ...more],
      steps: [...programRecord.steps.slice(0, place), ...second.steps, made, masked, ...programRecord.steps.slice(place + 1)],
    },
    visible: made.id,
  };
}

/** The numbers of a leaf for so many empty places before the words, and a second text that begins after some. */
function filled({ kind }: LeafRecord, given: Tensor, before: number, second: number): Tensor {
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

/** Whether one may look at the other, by a value of the program that may be a row or a column. */
export function may({ program }: Under, visible: string, asks: number, answers: number): boolean {
  if (!visible) return true;
  const value = program.get(visible);
  return at(value, aligned([asks, answers], value.shape)) > 0;
}

/** Why a pair may look or not, one sentence. */
export function reason(under: Under, join: "and" | "or", asks: number, answers: number): string {
  const name = (i: number) => named(under, i);
  const able = may(under, under.visible, asks, answers);
  const begins = `${name(asks)} ${able ? "may" : "may not"} look at ${asks === answers ? "itself" : name(answers)}`;
  const told = under.parts
    .filter((part) => join === "and" || under.parts.length < 2 || may(under, part.visible, asks, answers) === able)
    .filter((part) => able || may(under, part.visible, asks, answers) === able)
    .map((part) => {
      const seen = may(under, part.visible, asks, answers);
      const text = seen ? part.rule.seen : part.rule.hidden;
      if (asks === answers && text.includes("{asks}")) return "it is the word itself";
      return text.replaceAll("{asks}", name(asks)).replaceAll("{answers}", name(answers)).replaceAll("{n}", counted(part));
    });
  return `${begins}: ${told.length ? [...new Set(told)].join(", and ") : "nobody is hidden"}.`;
}

const counted = ({ rule, n }: Part): string => (rule.knob?.sets === "document" ? String(n) : `${n} word${n === 1 ? "" : "s"}`);

/** “Love” 1, or the second empty place. */
export const named = ({ names, before }: Under, i: number): string =>
  i < before ? `empty place ${i + 1}` : `“${names[i].text}” ${i - before + 1}`;

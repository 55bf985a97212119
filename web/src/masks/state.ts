// What a person has chosen on the page of masks. It is the link to the page.
import type { Masks, Pattern, Rule } from "../contract";

/** A rule with its number (0 where it takes none). */
export interface Chosen {
  name: string;
  n: number;
}

export interface MasksState {
  rules: Chosen[]; // one, or two that are joined
  join: "and" | "or";
  head: number;
  cell?: [number, number]; // who asks and who answers
  lesson: number; // of the sentence's training examples
  window: number;
  layers: number;
  step: number; // of decoding
  keep: number; // words in its window; all of them: no window
}

export const LAYERS = 4;

export function initial(record: Masks): MasksState {
  const count = record.words.length;
  return {
    rules: chosen(
      record,
      record.patterns.find(({ name }) => name === "causal")!,
    ),
    join: "and",
    head: 0,
    lesson: Math.min(1, count - 1),
    window: Math.min(2, count),
    layers: 2,
    step: Math.min(1, count - 1),
    keep: count,
  };
}

export const ruleOf = (record: Masks, name: string): Rule => record.rules.find((rule) => rule.name === name)!;

/** A rule with the number that it begins with. */
export const begun = (record: Masks, name: string): Chosen => ({ name, n: ruleOf(record, name).knob?.start ?? 0 });

export const chosen = (record: Masks, pattern: Pattern): Chosen[] => pattern.rules.map((name) => begun(record, name));

/** The pattern that these rules are, whatever their numbers. */
export const patternOf = (record: Masks, { rules, join }: MasksState): Pattern | undefined =>
  record.patterns.find(
    (pattern) =>
      pattern.rules.join() === rules.map(({ name }) => name).join() && (rules.length < 2 || (pattern.join ?? "and") === join),
  );

export function toHash(state: MasksState, record: Masks): string {
  const begin = initial(record);
  const parts = new URLSearchParams();
  const rules = written(state.rules, record);
  if (rules !== written(begin.rules, record)) parts.set("mask", rules);
  if (state.rules.length > 1 && state.join === "or") parts.set("join", "or");
  if (state.cell) parts.set("cell", state.cell.map((i) => i + 1).join("."));
  for (const key of ["head", "lesson", "step"] as const) if (state[key] !== begin[key]) parts.set(key, String(state[key] + 1));
  for (const key of ["window", "layers", "keep"] as const) if (state[key] !== begin[key]) parts.set(key, String(state[key]));
  return parts.toString();
}

const written = (rules: Chosen[], record: Masks): string =>
  rules.map(({ name, n }) => (ruleOf(record, name).knob ? `${name}-${n}` : name)).join(".");

/** The state that a fragment describes; what makes no sense is left out. */
export function fromHash(hash: string, record: Masks): MasksState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial(record);
  const count = record.words.length;
  const whole = (key: string, low: number, high: number, from: number): number => {
    const value = Number(parts.get(key) ?? NaN);
    return Number.isInteger(value) && value >= low && value <= high ? value : from;
  };
  const rules = (parts.get("mask") ?? "").split(".").map((text) => known(text, record));
  if (rules.length <= 2 && rules.every((rule) => rule !== undefined)) state.rules = rules;
  if (parts.get("join") === "or" && state.rules.length > 1) state.join = "or";
  const [asks, answers] = (parts.get("cell") ?? "").split(".").map(Number);
  if ([asks, answers].every((i) => Number.isInteger(i) && i >= 1 && i <= count + 4)) state.cell = [asks - 1, answers - 1];
  state.head = whole("head", 1, record.heads, 1) - 1;
  state.lesson = whole("lesson", 1, count, state.lesson + 1) - 1;
  state.step = whole("step", 1, count, state.step + 1) - 1;
  state.window = whole("window", 1, count, state.window);
  state.layers = whole("layers", 1, LAYERS, state.layers);
  state.keep = whole("keep", 1, count, state.keep);
  return state;
}

/** "window-3" as a rule with its number. */
function known(text: string, record: Masks): Chosen | undefined {
  const [name, number] = text.split("-");
  const rule = record.rules.find((one) => one.name === name);
  if (!rule) return undefined;
  const n = Number(number ?? rule.knob?.start ?? 0);
  return !rule.knob ? { name, n: 0 } : n >= rule.knob.low && n <= rule.knob.high && Number.isInteger(n) ? { name, n } : undefined;
}

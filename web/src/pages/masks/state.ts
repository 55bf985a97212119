// The selection on the page of masks. It is the link to the page.
import type { Masks, Pattern, Rule } from "../../core/contract";

/** A rule with its parameter (0 where it has none). */
export interface Chosen {
  name: string;
  n: number;
}

export interface MasksState {
  rules: Chosen[]; // one, or two that are joined
  join: "and" | "or";
  head: number;
  cell?: [number, number]; // query and key
  lesson: number; // of the sentence's training examples
  window: number;
  layers: number;
  step: number; // of decoding
  keep: number; // words in the cache's window; all of them: no window
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

/** A rule with its default parameter. */
export const withDefault = (record: Masks, name: string): Chosen => ({ name, n: ruleOf(record, name).knob?.start ?? 0 });

export const chosen = (record: Masks, pattern: Pattern): Chosen[] => pattern.rules.map((name) => withDefault(record, name));

/** The preset that these rules are, whatever their parameters. */
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
  if (state.cell) parts.set("cell", state.cell.join("."));
  for (const key of ["head", "lesson", "step", "window", "layers", "keep"] as const)
    if (state[key] !== begin[key]) parts.set(key, String(state[key]));
  return parts.toString();
}

const written = (rules: Chosen[], record: Masks): string =>
  rules.map(({ name, n }) => (ruleOf(record, name).knob ? `${name}-${n}` : name)).join(".");

/** The state that a fragment describes; what is invalid is left out. */
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
  const cell = /^(\d{1,3})\.(\d{1,3})$/
    .exec(parts.get("cell") ?? "")
    ?.slice(1)
    .map(Number);
  if (cell?.every((i) => i < count + 4)) state.cell = [cell[0], cell[1]];
  state.head = whole("head", 0, record.heads - 1, 0);
  state.lesson = whole("lesson", 0, count - 1, state.lesson);
  state.step = whole("step", 0, count - 1, state.step);
  state.window = whole("window", 1, count, state.window);
  state.layers = whole("layers", 1, LAYERS, state.layers);
  state.keep = whole("keep", 1, count, state.keep);
  return state;
}

/** "window-3" as a rule with its parameter. */
function known(text: string, record: Masks): Chosen | undefined {
  const [name, number] = text.split("-");
  const rule = record.rules.find((one) => one.name === name);
  if (!rule) return undefined;
  const n = Number(number ?? rule.knob?.start ?? 0);
  return !rule.knob ? { name, n: 0 } : n >= rule.knob.low && n <= rule.knob.high && Number.isInteger(n) ? { name, n } : undefined;
}

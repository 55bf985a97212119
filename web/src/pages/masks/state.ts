// The selection on the page of masks.
import type { Masks, Pattern, Rule } from "../../core/contract";
import { choice, type Code, field, list, only, optional, pair, schema, type Schema, whole } from "../../core/state";

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

export function stateOf(record: Masks): Schema<MasksState> {
  const count = record.words.length;
  const causal = record.patterns.find(({ name }) => name === "causal")!;
  const rules = only(list(rule(record)), ({ length }) => length === 1 || length === 2);
  const position = whole(0, count - 1);
  return schema<MasksState>({
    rules: field(rules, chosen(record, causal), { key: "mask" }),
    join: field<MasksState["join"], MasksState>(({ rules }) => choice(rules.length > 1 ? ["and", "or"] : ["and"]), "and"),
    cell: optional(pair(whole(0, count + 3)), { history: "none" }),
    head: field(whole(0, record.heads - 1), 0),
    lesson: field(position, Math.min(1, count - 1), { history: "none" }),
    step: field(position, Math.min(1, count - 1), { history: "none" }),
    window: field(whole(1, count), Math.min(2, count)),
    layers: field(whole(1, LAYERS), 2),
    keep: field(whole(1, count), count),
  });
}

/** "window-3": a rule with its parameter. */
const rule = (record: Masks): Code<Chosen> => ({
  write: ({ name, n }) => (ruleOf(record, name).knob ? `${name}-${n}` : name),
  read(text) {
    const [name, number] = text.split("-");
    const found = ruleOf(record, name);
    if (!found?.knob) return found && { name, n: 0 };
    const n = number === undefined ? found.knob.start : whole(found.knob.low, found.knob.high).read(number);
    return n === undefined ? undefined : { name, n };
  },
});

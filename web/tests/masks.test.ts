// The page of masks: combined masks, padding, and what the link keeps.
import { describe, expect, test } from "vitest";
import type { Knob, LeafRecord, Masks, Rule, StepRecord } from "../src/core/contract";
import { stepsBack } from "../src/pages/masks/derivation";
import { mayAttend, reason, maskedAttention } from "../src/pages/masks/combined";
import { type MasksState, patternOf, stateOf } from "../src/pages/masks/state";
import { at } from "../src/core/tensor";
import { linkTests } from "./links";
import { leaf, step } from "./toy";

const WORDS = ["Love", "conquers", "all", "things"];
const X = leaf("X", [[1, 0], [0, 1], [1, 1], [2, 1]], "content", ["token", "feature"]); // prettier-ignore
const ORDER = leaf("order", [0, 1, 2, 3], "order", ["token"]);
const scores = [step("Xᵀ", "transpose", ["X"]), step("S", "matmul", ["X", "Xᵀ"])];
const columns = [step("o↓", "column", ["order"]), step("o→", "row", ["order"])];

function rule(name: string, mask: StepRecord[], more: Partial<Rule> = {}, leaves: LeafRecord[] = []): Rule {
  const visible = mask.at(-1)?.id ?? "";
  const hiding = mask.length ? [step("S∘M", "mask", ["S", visible])] : [];
  const steps = [...scores, ...mask, ...hiding, step("A", "softmax", [mask.length ? "S∘M" : "S"])];
  const all = [X, ...(mask.some(({ inputs }) => inputs.includes("order")) ? [ORDER] : []), ...leaves];
  const pooled = all.map((one) => ({ ...one, array: null, pool: one.id }));
  return { name, title: name, summary: `${name}.`, allowed_reason: `${name} shows {key} to {query} by {n}`, masked_reason: `${name} hides {key} from {query} by {n}`, program: { leaves: pooled, steps, outputs: ["A"] }, mask: visible, weights: "A", ...more }; // prettier-ignore
}

const knob = (more: Partial<Knob>): Knob => ({ label: "n", low: 0, high: 4, start: 2, sets: "parameter", ...more });
const VALID = leaf("valid", [1, 1, 1, 1], "valid", ["token"]);
const TEXTS = leaf("document", [0, 0, 1, 1], "document", ["token"]);
const record: Masks = {
  title: "Masks",
  summary: "",
  words: WORDS,
  bos: "‹begin›",
  model: "toy",
  parameters: 0,
  heads: 1,
  seed: 0,
  rules: [
    rule("full", []),
    rule("causal", [...columns, step("M", "not_after", ["o→", "o↓"])]),
    rule("window", [...columns, step("|i−j|", "distance", ["o↓", "o→"]), step("M", "below", ["|i−j|"], { number: 2 })], { knob: knob({ op: "below", parameter: "number" }) }), // prettier-ignore
    rule("texts", [step("d↓", "column", ["document"]), step("d→", "row", ["document"]), step("M", "equal", ["d↓", "d→"])], { knob: knob({ sets: "document" }) }, [TEXTS]), // prettier-ignore
    rule("padded", [step("M", "row", ["valid"])], { knob: knob({ sets: "valid", start: 1 }) }, [VALID]),
  ],
  patterns: [
    { name: "full", title: "full", summary: "", rules: ["full"] },
    { name: "causal", title: "causal", summary: "", rules: ["causal"] },
    { name: "sliding", title: "sliding window", summary: "", rules: ["causal", "window"] },
    { name: "either", title: "either", summary: "", rules: ["causal", "window"], join: "or" },
  ],
  pool: Object.fromEntries([X, ORDER, VALID, TEXTS].map((one) => [one.id, one.array!])),
  examples: WORDS.map((next, i) => ({ prefix_length: i + 1, next, full_pass_loss: 1, own_pass_loss: 1 })),
  influence: { shape: [0], dtype: "float64", data: [] },
  decoding: [],
  cached_multiply_adds: [],
  full_multiply_adds: [],
  token_multiply_adds: 0,
  pair_multiply_adds: 0,
};
const state = (more: Partial<MasksState>): MasksState => ({ ...stateOf(record).initial(), ...more });
const rules = (...given: [string, number][]) => given.map(([name, n]) => ({ name, n }));
const table = (given: Partial<MasksState>): string[] => {
  const now = maskedAttention(record, state(given));
  return now.names.map((_, i) => now.names.map((_, j) => (mayAttend(now, now.visible, i, j) ? "1" : "0")).join(""));
};

describe("combined masks", () => {
  test("one rule is its own program, with its parameter", () => {
    expect(table({ rules: rules(["full", 0]) })).toEqual(["1111", "1111", "1111", "1111"]);
    expect(table({ rules: rules(["causal", 0]) })).toEqual(["1000", "1100", "1110", "1111"]);
    expect(table({ rules: rules(["window", 2]) })).toEqual(["1100", "1110", "0111", "0011"]);
    expect(table({ rules: rules(["window", 3]) })).toEqual(["1110", "1111", "1111", "0111"]);
  });

  test("two rules are what both allow, or one of them", () => {
    expect(table({ rules: rules(["causal", 0], ["window", 2]) })).toEqual(["1000", "1100", "0110", "0011"]);
    expect(table({ rules: rules(["causal", 0], ["window", 2]), join: "or" })).toEqual(["1100", "1110", "1111", "1111"]);
    expect(table({ rules: rules(["window", 3], ["window", 2]) })).toEqual(["1100", "1110", "0111", "0011"]);
    expect(table({ rules: rules(["causal", 0], ["texts", 1]) })).toEqual(["1000", "0100", "0110", "0111"]);
  });

  test("all words and a rule is the rule; all words or a rule is all words", () => {
    expect(table({ rules: rules(["full", 0], ["causal", 0]) })).toEqual(["1000", "1100", "1110", "1111"]);
    expect(table({ rules: rules(["causal", 0], ["full", 0]), join: "or" })).toEqual(["1111", "1111", "1111", "1111"]);
  });

  test("padding stands before the words, and a fully masked row has weights of 0", () => {
    const given = state({ rules: rules(["causal", 0], ["padded", 1]) });
    expect(table(given)).toEqual(["00000", "01000", "01100", "01110", "01111"]);
    const now = maskedAttention(record, given);
    expect(now.names.map(({ text }) => text)).toEqual(["pad", ...WORDS]);
    const weights = now.program.get(now.weights);
    expect([0, 1, 2, 3, 4].map((j) => at(weights, [0, j]))).toEqual([0, 0, 0, 0, 0]);
    expect(at(weights, [2, 2])).toBeCloseTo(Math.E / (1 + Math.E), 14); // scores 0 and 1
  });

  test("the reason names the rules that decide", () => {
    const both = state({ rules: rules(["causal", 0], ["window", 2]) });
    const now = maskedAttention(record, both);
    expect(reason(now, "and", 2, 1)).toBe("“all” 2 can attend to “conquers” 1: causal shows “conquers” 1 to “all” 2 by 0 words, and window shows “conquers” 1 to “all” 2 by 2 words."); // prettier-ignore
    expect(reason(now, "and", 2, 0)).toBe("“all” 2 cannot attend to “Love” 0: window hides “Love” 0 from “all” 2 by 2 words.");
    const either = maskedAttention(record, { ...both, join: "or" });
    expect(reason(either, "or", 2, 0)).toBe("“all” 2 can attend to “Love” 0: causal shows “Love” 0 to “all” 2 by 0 words.");
    expect(reason(maskedAttention(record, state({ rules: rules(["full", 0]) })), "and", 0, 3)).toMatch(/no pair is masked\.$/);
  });

  test("a weight leads back to the products of query and key", () => {
    const { programRecord, weights } = maskedAttention(record, state({}));
    expect(stepsBack(programRecord, weights)).toEqual(["A", "S∘M", "S"]);
  });
});

describe("the link", () => {
  const of = stateOf({ ...record, heads: 2 });
  linkTests(
    of,
    {
      mask: ["causal", "window-3.texts-1", "full", "padded-1.causal", "texts", "nonsense", "window-9", "causal.window.full"],
      join: ["and", "or", "xor"],
      cell: ["2.0", "0.7", "7.7", "-1.1", "1"],
      ...Object.fromEntries(["head", "lesson", "step", "window", "layers", "keep"].map((key) => [key, ["0", "1", "2", "3", "4", "5", "-1", "1.5"]])), // prettier-ignore
    },
    ["mask=nonsense", "mask=window-9", "mask=causal.window.full", "cell=-1.1", "cell=1", "layers=5", "keep=1.5", "head=2", "join=or"], // prettier-ignore
  );

  test("is as short as the choices", () => {
    const chosen = state({ rules: rules(["window", 3], ["texts", 1]), join: "or", cell: [2, 0], lesson: 3, window: 4, layers: 1, step: 2, keep: 2 }); // prettier-ignore
    expect(of.write(chosen)).toBe("mask=window-3.texts-1&join=or&cell=2.0&lesson=3&step=2&window=4&layers=1&keep=2");
  });

  test("a preset is known by its rules and how they are combined", () => {
    const both = rules(["causal", 0], ["window", 4]);
    expect(patternOf(record, state({ rules: both }))?.name).toBe("sliding");
    expect(patternOf(record, state({ rules: both, join: "or" }))?.name).toBe("either");
    expect(patternOf(record, state({ rules: rules(["window", 4]) }))).toBeUndefined();
  });
});

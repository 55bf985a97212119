// The model's answers on the page of all heads: asked once, kept, and dropped where the page has moved on.
import { describe, expect, test } from "vitest";
import type { Heads, InterventionEffect, RankedHeads } from "../src/core/contract";
import type { Fetcher } from "../src/core/latest_request";
import { ModelAnswers, withChange } from "../src/pages/heads/model_answers";
import { type Change, changeCode, changeWords } from "../src/pages/heads/model_change";
import { answerNumber, effectSummary } from "../src/pages/heads/model_panel";
import { rankingSummary } from "../src/pages/heads/model_ranking";

const line = { name: "text", kind: "words", labels: ["the", " dog", " runs"] };
const layer = { query_sequence: 0, key_sequence: 0, heads: [{}, {}], cross: false };
const page = (more: object = {}, served = true) =>
  ({
    served,
    sequences: [line],
    layers: [layer, layer],
    interventions: { answer: "next", sequence: 0, ...more },
  }) as unknown as Heads;
const zero: Change = { action: "zero", of: "output", where: [1, 0], tokens: [] };
const state = (changes: Change[] = [], more: { second?: string; after?: number } = {}) => ({ changes, second: "", after: undefined, ...more }); // prettier-ignore
const effect = (changes: string[], after = 2, other = "", value = 0.5) =>
  ({ changes, after, other, rows: [{ id: 7, name: "a", before: 0.25, after: value }] }) as unknown as InterventionEffect;
const ranked = (by: string, at: number, answer = 7) =>
  ({ by, layer: at, answer, after: 2, other: "", metric: "log-probability", name: " a", before: -1.25, effects: [0.5, -2 * at], calls: 1, copies: 3, notes: ["a note"] }) as RankedHeads; // prettier-ignore

/** A command that answers when the test says so. */
function command() {
  const asked: { address: string; answer: (found: unknown, status?: number) => void }[] = [];
  const ask: Fetcher = (address) =>
    new Promise((resolve) => asked.push({ address, answer: (found, status = 200) => resolve(new Response(typeof found === "string" ? found : JSON.stringify(found), { status })) })); // prettier-ignore
  return { asked, ask };
}

describe("answers", () => {
  test("without a change nothing is asked", async () => {
    const { asked, ask } = command();
    const answers = new ModelAnswers(page(), () => undefined, ask);
    await answers.follow(state());
    expect([asked.length, answers.busy, answers.effect]).toEqual([0, false, undefined]);
  });

  test("a change is asked once, and its answer kept", async () => {
    const { asked, ask } = command();
    const answers = new ModelAnswers(page(), () => undefined, ask);
    const first = answers.follow(state([zero], { after: 9 })); // beyond the last token
    expect(answers.busy).toBe(true);
    expect(asked[0].address).toBe("/effect?changes=zero_output_1.0&after=2&second=");
    asked[0].answer(effect(["zero_output_1.0"]));
    await first;
    expect(answers.effect?.rows[0].after).toBe(0.5);
    await answers.follow(state());
    expect(answers.effect).toBeUndefined();
    await answers.follow(state([zero]));
    expect([answers.effect?.rows[0].after, asked.length]).toEqual([0.5, 1]);
  });

  test("an answer to what is no longer asked is dropped", async () => {
    const { asked, ask } = command();
    const answers = new ModelAnswers(page(), () => undefined, ask);
    const first = answers.follow(state([zero]));
    const second = answers.follow(state([zero], { second: "a cat" }));
    asked[1].answer(effect(["zero_output_1.0"], 2, "a cat", 0.75));
    asked[0].answer(effect(["zero_output_1.0"]));
    await Promise.all([first, second]);
    expect(answers.effect?.rows[0].after).toBe(0.75);
  });

  test("the command's sentence is the trouble, and the next answer clears it", async () => {
    const { asked, ask } = command();
    const answers = new ModelAnswers(page(), () => undefined, ask);
    const first = answers.follow(state([zero]));
    asked[0].answer("There is no such head.\n", 400);
    await first;
    expect([answers.trouble, answers.busy]).toEqual(["There is no such head.", false]);
    await answers.follow(state());
    expect(answers.trouble).toBe("");
  });

  test("a file has what was computed, and says what needs the model", async () => {
    const { asked, ask } = command();
    const stored = page({ effects: [effect(["zero_output_1.0"])] }, false);
    const answers = new ModelAnswers(stored, () => undefined, ask);
    await answers.follow(state([zero]));
    expect(answers.effect?.rows[0].after).toBe(0.5);
    await answers.follow(state([{ ...zero, where: [0, 0] }]));
    expect([answers.effect, asked.length]).toEqual([undefined, 0]);
    expect(answers.trouble).toContain("This answer is not in the file");
  });
});

describe("a ranking", () => {
  test("asks for one layer after another, by the most probable answer", async () => {
    const { asked, ask } = command();
    const answers = new ModelAnswers(page(), () => undefined, ask);
    const whole = answers.rank("zero", undefined, answers.question(state()));
    asked[0].answer(effect([]));
    await expect.poll(() => asked.length).toBe(2);
    expect(asked[1].address).toBe("/rank?by=zero&layer=0&answer=7&after=2&second=");
    asked[1].answer(ranked("zero", 0));
    await expect.poll(() => asked.length).toBe(3);
    expect([answers.ranked.length, answers.ranking]).toEqual([1, true]);
    asked[2].answer(ranked("zero", 1));
    await whole;
    expect([answers.ranked.length, answers.ranking]).toEqual([2, false]);
    await answers.rank("zero", 7, answers.question(state()));
    expect([answers.ranked.length, asked.length]).toEqual([2, 3]); // kept
  });

  test("is cancelled, and keeps the layers that are done", async () => {
    const { asked, ask } = command();
    const answers = new ModelAnswers(page(), () => undefined, ask);
    const whole = answers.rank("mean", 7, answers.question(state()));
    asked[0].answer(ranked("mean", 0));
    await expect.poll(() => asked.length).toBe(2);
    answers.cancel();
    asked[1].answer(ranked("mean", 1));
    await whole;
    expect([answers.ranked.map((one) => one.layer), answers.ranking]).toEqual([[0], false]);
  });

  test("says what it took and which heads are first", () => {
    expect(rankingSummary([ranked("zero", 0), ranked("zero", 1)], 4, "set to 0", (l, h) => `L${l}H${h}`)).toBe(
      "Change of the log-probability of “␣a” in nats (−1.25 unchanged), each head alone set to 0: 4 of 4 heads, 2 forward calls of up to 3 copies. The largest: L1H1 −2, L0H0 0.50, L1H0 0.50, L0H1 0. a note", // prettier-ignore
    );
  });
});

describe("changes", () => {
  const code = changeCode([2, 2]);
  test("of one site replace each other", () => {
    const half = { action: "scale", of: "output", where: [1, 0], tokens: [], value: 0.5 } as Change;
    const all = withChange(withChange([zero], half), { ...half, value: 2 });
    expect(all.map(code.write)).toEqual(["zero_output_1.0", "scale_output_1.0__2"]);
  });

  test.each([
    ["zero_output_1.0", "Set the output of L1H0 to 0"],
    ["mean_output_1", "Set the output of every head of L1 to its mean"],
    ["patch_stream_0_1", "Take “\u2068dog\u2069” (1) entering L0 from the second input"],
    ["patch_stream_0", "Take every token entering L0 from the second input"],
    ["cut_weights_1_2.0", "Every head of L1: “\u2068runs\u2069” (2) no longer attends to “\u2068the\u2069” (0)"],
    ["set_k_1.1_2.5_-0.25", "L1H1: feature 5 of k of “\u2068runs\u2069” (2) is -0.25"],
    ["move_token__1_9", "Move “\u2068dog\u2069” (1) to position 9"],
  ])("%s in words", (text, words) => expect(changeWords(page(), line as never, code.read(text)!)).toBe(words));

  test("the row that changes most is told", () => {
    const rows = [{ id: 1, name: "a", before: 0.5, after: 0.4 }, { id: 2, name: " b", before: 0.1, after: 0.35 }]; // prettier-ignore
    expect(effectSummary({ rows } as InterventionEffect)).toBe("“␣b”: 0.1000 → 0.3500 (+0.2500)");
    expect(effectSummary({ rows, largest: 0 } as InterventionEffect)).toBe("No number of the output changes");
    expect([0.5, 2e-4, 0, -1e-7].map(answerNumber)).toEqual(["0.5000", "2.0e-4", "0.0000", "-1.0e-7"]);
  });
});

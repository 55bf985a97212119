import { describe, expect, test } from "vitest";
import type { Cost, Speeds, CostTerm, Timing } from "../src/core/contract";
import { stepped } from "../src/pages/cost/bars";
import {
  all,
  amount,
  brief,
  crossing,
  divisors,
  letters,
  type Model,
  operands,
  percent,
  stored,
  together,
} from "../src/pages/cost/formula";
import { lengths } from "../src/pages/cost/length";
import { duration, explained, fitted, picture, subjects } from "../src/pages/cost/timings";
import { changed, chosen, withDividingHeads, nearest, refusal, sized, stateOf } from "../src/pages/cost/state";
import { linkTests } from "./links";

const term = (times: number, of: string, ...only: string[]): CostTerm => ({ coefficient: times, symbols: of, requires: only });
const sizes = { B: 1, N: 10, D: 8, H: 4, G: 4, F: 32, L: 2, V: 5, P: 0, T: 0, E: 0 };
const model = (more: Partial<typeof sizes> = {}, ...has: string[]): Model => ({ sizes: { ...sizes, ...more }, has });
const PROJECTIONS = [term(2, "BNDD"), term(2, "BNDGK")];
const size = (letter: string, name: string, high = 1000) => ({ letter, name, low: 1, high, stops: [1, 10, 100] });
const cost: Cost = {
  title: "cost",
  summary: "",
  sizes: [size("N", "tokens", 100_000), size("D", "width"), size("H", "heads"), size("G", "key/value heads"), size("F", "feed-forward"), size("B", "sequences")], // prettier-ignore
  parts: [
    { name: "projections", group: "attention", about: "", full_pass: PROJECTIONS },
    { name: "QKᵀ", group: "attention", about: "", full_pass: [term(2, "BNND")] },
    { name: "softmax", group: "attention", about: "", full_pass: [term(1, "BHNN")], counted: false },
    { name: "feed-forward", group: "feed-forward", about: "", full_pass: [term(2, "BNDF"), term(1, "BNDF", "gate")] },
    { name: "output layer", group: "ends", about: "", per_layer: false, full_pass: [term(1, "BNDV")], parameters: [term(1, "DV")] },
  ],
  memory: [],
  presets: [
    { name: "small", title: "Small", sizes, features: ["causal"] },
    { name: "shared", title: "Shared", sizes: { ...sizes, D: 24, H: 12, G: 3, F: 84 }, features: ["gate"] },
  ],
};

describe("a formula", () => {
  test("is a sum of products", () => {
    expect(amount(PROJECTIONS, model())).toBe(4n * 10n * 64n);
    expect(amount(PROJECTIONS, model({ G: 2 }))).toBe(2n * 10n * 64n + 2n * 10n * 8n * 2n * 2n);
    expect(amount([term(1, "N", "gate")], model())).toBe(0n);
    expect(amount([term(1, "N", "gate")], model({}, "gate"))).toBe(10n);
    expect(amount([], model())).toBe(0n);
  });

  test("is exact beyond what a float can hold", () => {
    expect(amount([term(1, "NND"), term(1, "N")], model({ N: 3_000_001, D: 65_535 }))).toBe(
      3_000_001n ** 2n * 65_535n + 3_000_001n,
    );
  });

  test("of a model leaves out what is not counted and takes layers as often as there are", () => {
    expect(all(cost, "full_pass", model())).toBe(2n * (4n * 640n + 2n * 800n + 2n * 10n * 8n * 32n) + 400n);
    expect(all(cost, "parameters", model())).toBe(40n);
  });

  test("is written as in a textbook where heads keep keys of their own and F is a multiple of D", () => {
    expect(letters(PROJECTIONS, model())).toBe("4ND²");
    expect(operands(PROJECTIONS, model())).toBe("4 · 10 · 8²");
    expect(letters(PROJECTIONS, model({ G: 2, B: 3 }))).toBe("2BND² + 2BNDGK");
    expect(operands(PROJECTIONS, model({ G: 2, B: 3 }))).toBe("2 · 3 · 10 · 8² + 2 · 3 · 10 · 8 · 2 · 2");
    expect(letters(cost.parts[3].full_pass!, model())).toBe("8ND²");
    expect(letters(cost.parts[3].full_pass!, model({ F: 33 }, "gate"))).toBe("3NDF");
    expect(letters([term(1, "NPD"), term(-1, "EPD")], model())).toBe("NPD − EPD");
    expect(letters([], model())).toBe("0");
  });

  test("of a whole model is one line", () => {
    expect(together(cost, "full_pass", model())).toEqual({
      letters: "L · (12ND² + 2N²D) + NDV",
      operands: "2 · (12 · 10 · 8² + 2 · 10² · 8) + 10 · 8 · 5",
    });
    expect(together(cost, "decoding_step", model()).letters).toBe("L · (0)");
  });
});

describe("numbers", () => {
  test("are short and keep four digits", () => {
    expect([0, 999, 1024, 12_345, 999_960, 145_812_000_000].map(brief)).toEqual(["0", "999", "1,024", "12.35 k", "1 M", "145.8 G"]); // prettier-ignore
    expect(brief(2n ** 80n)).toBe("1,209,000 E");
    expect([512, 2_500_000_000].map(stored)).toEqual(["512 B", "2.5 GB"]);
    expect([percent(1n, 3n), percent(1n, 20n), percent(1n, 100_000n), percent(0n, 7n), percent(1n, 0n)]).toEqual(["33 %", "5 %", "< 0.1 %", "0 %", "–"]); // prettier-ignore
    expect([3.14159, 4200, 360_000, 36_000_000].map(duration)).toEqual(["3.14 ms", "4.2 s", "6 min", "10 h"]);
  });

  test("have divisors, and one is the nearest by ratio", () => {
    expect(divisors(12)).toEqual([1, 2, 3, 4, 6, 12]);
    expect(divisors(1)).toEqual([1]);
    expect(divisors(49)).toEqual([1, 7, 49]);
    expect(nearest([1, 10, 100], 30)).toBe(10);
    expect(nearest([1, 10, 100], 33)).toBe(100);
  });
});

describe("attention overtakes the feed-forward", () => {
  test("at twice the width, its products alone at four times", () => {
    for (const D of [8, 64, 400]) {
      const one = model({ D, F: 4 * D });
      expect(crossing(cost, one, true).at).toBe(2 * D);
      expect(crossing(cost, one, false).at).toBe(4 * D);
      expect(crossing(cost, model({ D, F: 4 * D, B: 7, L: 30 }), true).at).toBe(2 * D);
    }
  });

  test("earlier where the feed-forward is narrow, at every length where it is narrower than the projections", () => {
    expect(crossing(cost, model({ F: 24 }), true).at).toBe(8);
    expect(crossing(cost, model({ F: 16 }), true).at).toBeUndefined();
    expect(crossing(cost, model({ F: 24 }, "gate"), true).at).toBe(20);
  });

  test("is within what is drawn", () => {
    for (const far of [4, 3000, 1e6]) expect(Math.max(...lengths(sizes, far))).toBeGreaterThanOrEqual(far);
  });
});

const of = stateOf(cost);

describe("what is chosen", () => {
  const numbers = ["1", "2", "5", "6", "12", "64", "100001", "-3", "x", "1e3"];
  linkTests(
    of,
    { model: [...cost.presets.map(({ name }) => name), "none"], gate: ["on", "off", "x"], bytes: ["4", "1", "9"], view: ["heads", "tokens", "up"], ...Object.fromEntries(cost.sizes.map(({ letter }) => [letter, numbers])) }, // prettier-ignore
  );

  test("is as short as the choices", () => {
    const state = { ...of.read("model=shared"), gate: false, bytes: 4 as const, view: "heads" as const };
    state.sizes = { ...state.sizes, N: 77 };
    expect(of.write(state)).toBe("model=shared&N=77&gate=off&bytes=4&view=heads");
    expect([changed(cost, state), changed(cost, of.read("model=shared"))]).toEqual([true, false]);
    expect(chosen(cost, state).has).toEqual([]);
  });

  test("leaves out what makes no sense, and moves heads that do not divide", () => {
    expect(of.read("#model=none&N=-3&D=x&bytes=9&view=up&L=7")).toEqual(of.initial());
    expect(of.read("#N=100001&F=1e3&B=0")).toEqual(of.initial());
    expect(of.read("#D=10").sizes).toMatchObject({ D: 10, H: 5, G: 5 });
    expect(of.read("#model=shared&G=5").sizes.G).toBe(6);
  });

  test("keeps the feed-forward as many times as wide, and heads that divide", () => {
    expect(sized(sizes, "D", 16).sizes).toMatchObject({ D: 16, F: 64, H: 4, G: 4 });
    const { sizes: moved, changes } = sized(sizes, "D", 9);
    expect(moved).toMatchObject({ D: 9, H: 3, G: 3, F: 36 });
    expect(changes).toEqual(["4 heads do not divide a width of 9: now 3."]);
    expect(sized(sizes, "H", 2).sizes.G).toBe(2);
    expect(sized({ ...sizes, D: 24, H: 12, G: 3 }, "H", 4)).toMatchObject({ sizes: { H: 4, G: 4 }, changes: ["3 key/value heads do not divide 4 heads: now 4."] }); // prettier-ignore
    expect(withDividingHeads(sizes)).toEqual({ sizes, changes: [] });
  });

  test("is refused with what can be taken", () => {
    expect(refusal(cost.sizes[2], 3, sizes)).toBe("3 heads do not divide a width of 8. Take 2 or 4.");
    expect(refusal(cost.sizes[3], 9, sizes)).toBe("9 key/value heads do not divide 4 heads. Take 4.");
    expect(refusal(cost.sizes[0], 1.5, sizes)).toBe("tokens: a whole number from 1 to 100,000.");
    expect(refusal(cost.sizes[0], NaN, sizes)).toBe("tokens: a whole number from 1 to 100,000.");
    expect(refusal(cost.sizes[2], 2, sizes)).toBe("");
  });
});

test("arrow keys walk along a bar and between bars", () => {
  expect(stepped("ArrowRight", undefined, [3, 2])).toEqual([0, 0]);
  expect(stepped("ArrowRight", [0, 2], [3, 2])).toEqual([0, 2]);
  expect(stepped("ArrowDown", [0, 2], [3, 2])).toEqual([1, 1]);
  expect(stepped("ArrowUp", [0, 0], [3, 2])).toEqual([1, 0]);
  expect(stepped("End", [0, 0], [3, 2])).toEqual([0, 2]);
  expect(stepped("a", [0, 0], [3, 2])).toBeUndefined();
});

describe("times", () => {
  const timed = (part: Timing["part"], n: number, d: number, heads: number, median: number, fitted = true): Timing => ({ part, n, d, heads, multiply_adds: n * 100, median, low: median, high: median, fitted }); // prettier-ignore
  const speeds: Speeds = {
    timings: [timed("attention", 1, 8, 2, 2), timed("attention", 100, 8, 2, 3), timed("attention", 5, 16, 2, 2), timed("step by step", 100, 8, 2, 5), timed("step by step", 100, 8, 8, 9, false)], // prettier-ignore
    rates: [{ part: "attention", overhead: 1, rate: 5000 }],
    rounds: 3,
    dtype: "float32",
    threads: 1,
    cpu: "",
    torch: "",
  };

  test("are drawn over the formula at the rate that fits", () => {
    expect(fitted(speeds.rates[0], 10_000)).toBe(3);
    expect(subjects(speeds).width).toBe(8);
    expect(subjects(speeds).heads.map(({ part, heads }) => `${part} ${heads}`)).toEqual([
      "attention 2",
      "step by step 2",
      "step by step 8",
    ]);
    const [attention, plain] = picture(speeds, "tokens").series;
    expect(attention.marks.map(({ x }) => x)).toEqual([1, 100]);
    expect((attention.line as unknown[]).at(-1)).toEqual([100, 3]);
    expect(plain.line).toEqual([]);
    expect(picture(speeds, "work").series[0].marks.map(({ x }) => x)).toEqual([100, 500, 10_000]);
    expect(
      picture(speeds, "heads")
        .series.at(-1)!
        .marks.map(({ x }) => x),
    ).toEqual([2, 8]);
  });

  test("say where they leave it", () => {
    expect(explained(speeds, "work")).toMatch(/N = 1, D = 8 takes 100 times as long .* The overhead of a call/);
    expect(explained(speeds, "heads")).toContain("5 ms with 2 and 9 ms with 8");
    expect(explained({ ...speeds, rates: [] }, "work")).toContain("No rate fits");
  });
});

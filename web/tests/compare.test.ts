import { describe, expect, test } from "vitest";
import type { Extrapolation, Candidate, Comparison, PairedDifference, Trial } from "../src/core/contract";
import { results } from "../src/pages/compare/candidates";
import { leavesPlot } from "../src/pages/compare/curves";
import { extrapolated, brief, curve, groups, unsupported, sizes, spread, unfinished } from "../src/pages/compare/groups";
import { colour, dashes } from "../src/charts/markers";
import { equal } from "../src/pages/compare/provenance";
import { bytes, count, decimals, fixed, withSpread, signed, time, rangeText } from "../src/pages/compare/numbers";
import { paddedRange as interval, pOf, verdictOf } from "../src/pages/compare/pairs";
import type { Series } from "../src/charts/series";
import { csv, named } from "../src/pages/compare/csv";
import { stateOf } from "../src/pages/compare/state";
import { linkTests } from "./links";
import { sharedScale } from "../src/pages/compare/strip";
import { tone } from "../src/pages/compare/symmetries";

const candidate = (name: string, more: Partial<Candidate> = {}): Candidate => ({ name, changes: {}, ...more });
const trial = (name: string, seed: number, value: number | null, more: Partial<Trial> = {}): Trial => ({ candidate: name, seed, folder: `${name}/${seed}`, state: "finished", value, ...more }); // prettier-ignore
const steps = (...pairs: [number, number | null][]) => pairs as unknown as never[][];
const pair = (more: Partial<PairedDifference>): PairedDifference => ({
  first: "a",
  second: "b",
  difference: -0.1,
  verdict: "undecided",
  ...more,
});
const comparison = (more: Partial<Comparison> = {}): Comparison => ({ title: "", task: "language", part: "validation", metric: "loss", better: "less", varied: ["position"], seeds: [0, 1], candidates: [candidate("a"), candidate("b")], trials: [], ...more }); // prettier-ignore
describe("several seeds", () => {
  test("have a mean and a standard deviation, without what is not finite", () => {
    expect(spread([1, 2, 6])).toMatchObject({ count: 3, mean: 3, median: 2, low: 1, high: 6 });
    expect(spread([1, 2, 3])!.sd).toBe(1);
    expect(spread([4, 1])!.median).toBe(2.5);
    expect(spread([1, null, NaN, undefined, 3])).toMatchObject({ count: 2, mean: 2 });
    expect(spread([null, Infinity])).toBeUndefined();
  });

  test("of one seed have no standard deviation", () => {
    expect(spread([2])).toEqual({ count: 1, mean: 2, median: 2, low: 2, high: 2, sd: undefined });
    expect(withSpread(spread([2])!, 2)).toBe("2.00");
    expect(rangeText(spread([2])!, 2)).toBe("2.00, one seed");
  });

  test("meet at the steps at which they were evaluated", () => {
    const [a] = groups(comparison({ trials: [trial("a", 0, 1, { curve: steps([0, 4], [10, 2]) }), trial("a", 1, 1, { curve: steps([0, 6], [10, null], [20, 1]) })] })); // prettier-ignore
    expect(curve(a).map(({ x, value }) => [x, value.mean, value.count])).toEqual([[0, 5, 2], [10, 2, 1], [20, 1, 1]]); // prettier-ignore
  });

  test("of other sizes are unsupported only where no seed supports them", () => {
    const tried = (second: number | null): Extrapolation[] => [{ factor: 2, size: 8, value: second, reason: second ? "" : "no rows" }, { factor: 1, size: 4, value: 1 }]; // prettier-ignore
    const found = comparison({ trials: [trial("a", 0, 1, { extrapolation: tried(null) }), trial("a", 1, 1, { extrapolation: tried(3) }), trial("b", 0, 1, { extrapolation: tried(null) })] }); // prettier-ignore
    const [a, b] = groups(found);
    expect(extrapolated(a).map(({ x, value }) => [x, value.mean])).toEqual([[1, 1], [2, 3]]); // prettier-ignore
    expect([unsupported(a), unsupported(b).map(({ reason }) => reason)]).toEqual([[], ["no rows"]]);
    expect(sizes(found).map(({ size }) => size)).toEqual([4, 8]);
  });

  test("without a result are listed", () => {
    const [a] = groups(comparison({ trials: [trial("a", 0, 1), trial("a", 1, null, { state: "failed" }), trial("a", 2, 1, { state: "stopped" })] })); // prettier-ignore
    expect(unfinished(a).map(({ seed }) => seed)).toEqual([1, 2]);
  });
});

describe("names where there is little room", () => {
  test("lose their common parts", () => {
    expect(brief(["position=rope, heads=4", "position=alibi, heads=4"])).toEqual(["rope", "alibi"]);
    expect(brief(["rope, raw, 1", "rope, stem, 2"])).toEqual(["raw, 1", "stem, 2"]);
  });

  test("stay as they are where the short ones are ambiguous, or of another form", () => {
    for (const names of [["a"], [], ["a", "a"], ["a, b", "c"], ["x=", "x=1"], ["pre-norm", "post-norm"]])
      expect(brief(names)).toEqual(names);
  });
});

test("up to 24 candidates differ in dashes or in marker, also without their colour", () => {
  const looks = Array.from({ length: 24 }, (_, look) => `${dashes(look)} ${look % 12}`);
  expect(new Set(looks.slice(0, 12)).size).toBe(12);
  expect(new Set([0, 1, 2, 3, 4, 5, 6, 7].map(colour)).size).toBe(8);
});

describe("numbers", () => {
  test("have two digits of a usual spread, four in all where none is known", () => {
    expect(decimals([spread([1.48, 1.488]), spread([1.5, 1.504])])).toBe(4);
    expect(decimals([spread([71.2]), spread([70])])).toBe(2);
    expect(decimals([spread([0.0123])])).toBe(5);
    expect(decimals([undefined])).toBe(3);
    expect(withSpread(spread([1.48, 1.488])!, 4)).toBe("1.4840 ± 0.0057");
    expect(withSpread(spread([1, 1])!, 2)).toBe("1.00 ± 0");
  });

  test("are written for people", () => {
    expect([fixed(-0.5, 2), fixed(1e-7, 3), fixed(0, 3)]).toEqual(["−0.50", "1e-7", "0.000"]);
    expect([0.0123, -0.0123, 0].map((value) => signed(value, 3))).toEqual(["+0.012", "−0.012", "0.000"]);
    expect([0, 999, 4.1e8, 2e15].map(bytes)).toEqual(["0 B", "999 B", "410 MB", "2000 TB"]);
    expect([4.81, 59, 170].map(time)).toEqual(["4.8 s", "59 s", "2:50"]);
    expect([12, 2.1e9].map(count)).toEqual(["12", "2.1 G"]);
    expect(rangeText(spread([1, 2, 3])!, 1)).toBe("2.0, from 1.0 to 3.0 over 3 seeds");
  });
});

test("a strip holds what is drawn around the means", () => {
  const scale = sharedScale(groups(comparison({ trials: [trial("a", 0, 1), trial("a", 1, 2), trial("b", 0, 1.5)] })));
  for (const value of [1.5 - Math.SQRT1_2, 1.5 + Math.SQRT1_2])
    expect(scale.place(value) >= 2 && scale.place(value) <= 98).toBe(true);
});

describe("a pair", () => {
  test("has the verdict of the record", () => {
    expect(verdictOf(pair({ verdict: "different", better: "a" }))).toBe("a is better");
    expect(verdictOf(pair({ verdict: "equivalent" }))).toBe("equivalent");
    expect(verdictOf(pair({ verdict: "identical", difference: 0 }))).toBe("identical");
    expect(verdictOf(pair({ low: null }))).toBe("undecided: no spread to test it with");
    expect(verdictOf(pair({ low: -1, high: 1, p: 0.4, seeds: 12 }))).toBe("undecided; a new comparison needs about 12 seeds");
    expect(verdictOf(pair({ low: -1, high: 1, p: 0.4 }))).toBe("undecided; a new comparison needs more than 128 seeds");
  });

  test("has the p-value of its verdict, never rounded across 5 %", () => {
    expect(pOf(pair({ verdict: "different", p: 0.04981, p_equivalent: 0.9 }))).toBe("0.0498");
    expect(pOf(pair({ p: 0.0502 }))).toBe("0.05");
    expect(pOf(pair({ verdict: "equivalent", p: 0.9, p_equivalent: 0.0123 }))).toBe("0.012");
    expect(pOf(pair({ p: 2e-7 }))).toBe("< 0.0001");
    expect(pOf(pair({ p: null }))).toBe("–");
  });

  test("stands on an axis that shows the smallest effect", () => {
    expect(interval([pair({ difference: 0.01, low: 0, high: 0.02 })], 0.5)[1]).toBeGreaterThan(0.5);
  });

  test("with a very wide interval does not hide the others", () => {
    const usual = [1, 2, 3].map((i) => pair({ difference: 0.01 * i, low: 0.01 * i - 0.005, high: 0.01 * i + 0.005 }));
    const [low, high] = interval([...usual, pair({ difference: 0, low: -9, high: 9 })]);
    expect(high).toBeLessThan(0.1);
    expect(low).toBe(-high);
    expect(interval([pair({ difference: 0 })])).toEqual([-1.05, 1.05]);
  });
});

describe("a plot", () => {
  test("knows when a line leaves it", () => {
    const line = (top: number): Series => ({ look: 0, name: "", marks: [{ x: 0, y: top, sentence: "" }, { x: 1, y: 1, sentence: "" }] }); // prettier-ignore
    expect(leavesPlot([line(4), line(4.2), line(9e5)], false)).toBe(true);
    expect(leavesPlot([line(4), line(4.2), line(9e5)], true)).toBe(false);
    expect(leavesPlot([line(4), line(4.2), line(5)], false)).toBe(false);
    expect(leavesPlot([], false)).toBe(false);
    const wide: Series = { ...line(0.3), marks: [{ x: 0, y: 0.3, low: 0.2, high: 0.41, sentence: "" }] };
    expect(leavesPlot([line(0.19), wide].map((one) => ({ ...one, marks: one.marks.filter(({ x }) => x === 0) })), false), "a band alone").toBe(false); // prettier-ignore
  });
});

describe("a symmetry", () => {
  test("fails only where it was claimed", () => {
    expect([tone(true, "holds"), tone(false, "holds"), tone(true, "broken"), tone(false, "broken")]).toEqual(["holds", "holds", "fails", "not"]); // prettier-ignore
    expect([tone(true, undefined), tone(true, "undecided"), tone(true, "not applicable"), tone(undefined, "odd word")]).toEqual(["undecided", "undecided", "undecided", "undecided"]); // prettier-ignore
  });
});

describe("what is saved", () => {
  const found = comparison({
    candidates: [candidate('a, "quoted"', { parameters: 5 })],
    trials: [trial('a, "quoted"', 0, 1.5, { result: { test: { loss: 2 } }, extrapolation: [{ factor: 2, size: 8, value: 3 }] }), trial('a, "quoted"', 1, null, { state: "failed", reason: "two\nlines" })], // prettier-ignore
  });

  test("has a line for each run, with fields quoted as spreadsheets read them", () => {
    const [head, first] = csv(found).split("\r\n");
    expect(head).toBe(
      "candidate,seed,state,reason,value,test loss,value at 2x,seconds,tokens_a_second,memory,parameters,multiply_adds,steps,folder",
    );
    expect(first).toBe('"a, ""quoted""",0,finished,,1.5,2,3,,,,5,,,"a, ""quoted""/0"');
    expect(csv(found)).toContain('1,failed,"two\nlines",,');
    expect(results(found.trials)).toEqual([["test", "loss"]]);
  });

  test("has a name that every file system accepts", () => {
    expect(["Shakespeare, letter by letter", "../../x", "", "…"].map(named)).toEqual(["Shakespeare-letter-by-letter", "x", "comparison", "comparison"]); // prettier-ignore
  });
});

test("the provenance says what was held equal", () => {
  expect(equal(comparison())).toBe(
    "Only position differs between candidates. Data, budget and seeds are the same for all (seeds 0 and 1).",
  );
  expect(equal(comparison({ seeds: [3], equal: "compute", varied: ["a", "b"] }))).toMatch(/^Only a and b differ between candidates\. Data and seed are the same for all \(seed 3\)\. Steps were chosen/); // prettier-ignore
  expect(equal(comparison({ varied: ["data.tokens"] }))).toContain("Budget and seeds are the same");
  expect(equal(comparison({ varied: [], seeds: [] }))).toBe("Data, budget and seed are the same for all.");
});

describe("what a person has chosen", () => {
  const of = stateOf(5);
  linkTests(
    of,
    { without: ["0.3", "4", "5.9.x", "0.1.2.3.4", "1.1"], band: ["seeds", "odd"], axis: ["log", "lin"], steps: ["end", "x"], extrapolation: ["log"], cost: ["memory", "money"] }, // prettier-ignore
    ["#without=5.9.x&band=odd&axis=lin&cost=money", "without=0.1.2.3.4"],
  );

  test("is as short as the choices", () =>
    expect(of.write({ ...of.initial(), without: [0, 3], end: true })).toBe("without=0.3&steps=end"));
});

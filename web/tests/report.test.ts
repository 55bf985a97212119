import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Mark, Report, Row } from "../src/core/contract";
import { change, kinds } from "../src/pages/report/counterexample";
import { lanes, spoken } from "../src/pages/report/errors";
import { ANSWERS } from "../src/pages/report/evidence";
import { errorScale, share } from "../src/pages/report/scale";
import { stateOf } from "../src/pages/report/state";
import { linkTests } from "./links";
import { comparable, count, folded, tree } from "../src/pages/report/trail";
import { tone } from "../src/pages/report/rows";
import { typeset } from "../src/pages/report/typeset";

const row = (name: string, more: Partial<Row> = {}): Row => ({ name, kind: "property", verdict: "holds", ...more });
const report = (...rows: Row[]): Report => ({
  title: "toy",
  summary: "",
  audit: { target: "toy", model: "Toy", parameters: 1, dtype: "float32", device: "cpu", inputs: "", rows },
  rows: rows.map(({ name }) => ({ id: name, finding: [], samples: "", command: "" })),
});
const marks = (...modules: string[]): Mark[] => modules.map((module, i) => ({ module, error: i, depth: 0 }));

describe("the axis of errors", () => {
  test("grows with the error, from 0 on the left to what is not finite on the right", () => {
    const places = [0, 1e-17, 1e-16, 1e-8, 1e-2, 1, 10, -1].map(errorScale.place);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(new Set(places).size).toBe(places.length);
    expect(places.every((x) => x >= 0 && x <= 100)).toBe(true);
  });

  test("keeps what is smaller or larger than it in sight", () => {
    expect(errorScale.place(1e-40)).toBe(errorScale.place(1e-17));
    expect(errorScale.place(1e9)).toBe(errorScale.place(10));
    expect([null, undefined, NaN, Infinity].map((error) => errorScale.place(error as number))).toEqual(
      new Array(4).fill(errorScale.place(-1)),
    );
  });

  test("a tolerance has as few digits as it needs", () => {
    expect([1e-2, 0.015, 0.5, 0].map(share)).toEqual(["1 %", "1.5 %", "50 %", "0 %"]);
  });
});

test("a proof claims nothing beyond the sizes and values in its reason", () => {
  expect(ANSWERS.proved).toBe("Proved from the operations, for these sizes and values:");
  expect(ANSWERS.unknown).toBe("Neither proved nor refuted.");
});

describe("dots", () => {
  test("that would touch take lanes of their own, the worst the middle one", () => {
    expect(lanes([10, 50, 90])).toEqual([0, 0, 0]);
    const close = lanes([50, 50.5, 51]);
    expect(new Set(close).size).toBe(3);
    expect(close[2]).toBe(0);
  });

  test("have a description for a screen reader", () => {
    expect(spoken(row("a", { floor: 2e-16 }), [1e-16, 3e-16], 1e-2)).toBe(
      "2 errors from 1.0·10⁻¹⁶ to 3.0·10⁻¹⁶; rounding floor 2.0·10⁻¹⁶; approximate below 1 %",
    );
    expect(spoken(row("a"), [0.5, -1], 1e-2)).toBe("2 errors at 50.0 %; 1 not finite; approximate below 1 %");
    expect(spoken(row("a"), [-1], 1e-2)).toBe("1 error; 1 not finite; approximate below 1 %");
    expect(spoken(row("a"), [], 1e-2)).toBe("nothing was measured");
  });
});

describe("the way through the model", () => {
  const trail = marks("embed", "blocks.0.norm", "blocks.0.attention", "blocks.0", "blocks.1.norm", "blocks.1", "head", "Toy");

  test("is a tree of modules in call order", () => {
    const [root] = tree(trail, "blocks.1.norm");
    expect(root.name).toBe("Toy");
    expect(root.parts.map(({ name }) => name)).toEqual(["embed", "blocks.0", "blocks.1", "head"]);
    expect(root.parts[1].parts.map(({ name }) => name)).toEqual(["norm", "attention"]);
    expect(root.parts.map(({ holds }) => holds)).toEqual([false, false, true, false]);
    expect(count([root])).toBe(trail.length);
  });

  test("shows a module twice that is called twice", () => {
    const [root] = tree(marks("layer.norm", "layer", "layer.norm", "layer", "Toy"), "");
    expect(root.parts.map(({ name, parts }) => [name, parts.length])).toEqual([["layer", 1], ["layer", 1]]); // prettier-ignore
  });

  test("leaves out what cannot be compared, but for the culprit and for wholes whose parts can", () => {
    const some: Mark[] = [
      { module: "a", error: null },
      { module: "b.c", error: 1 },
      { module: "b", error: null },
      { module: "d", error: null },
      { module: "Toy", error: 1 },
    ];
    const [root] = comparable(tree(some, "d"), "d");
    expect(root.parts.map(({ name }) => name)).toEqual(["b", "d"]);
  });

  test("folds many alike siblings, never the culprit, and loses none", () => {
    const names = Array.from({ length: 300 }, (_, i) => `blocks.${i}`);
    const [root] = tree(marks(...names, "Toy"), "blocks.150");
    const lines = folded(root.parts);
    expect(lines.length).toBeLessThan(12);
    expect(lines.flat()).toEqual(root.parts);
    expect(lines.some((one) => !Array.isArray(one) && one.name === "blocks.150")).toBe(true);
    expect(folded(root.parts.slice(0, 8))).toEqual(root.parts.slice(0, 8));
  });

  test("an empty one is no tree", () => expect(tree([], "")).toEqual([]));
});

describe("what was changed", () => {
  test("an order marks the tokens that moved, of inputs of that length", () => {
    const { marked, order } = change({ order: [1, 0, 2] });
    expect([0, 1, 2].map((i) => marked(i, 3))).toEqual(["moved", "moved", undefined]);
    expect(marked(0, 5)).toBeUndefined();
    expect(order).toEqual([1, 0, 2]);
  });

  test("changed tokens, a changed sequence, tokens left out, and elements that say nothing of tokens", () => {
    expect([0, 1, 2, 3].map((i) => change({ changed: 1, to: 3 }).marked(i, 4))).toEqual([undefined, "changed", "changed", undefined]); // prettier-ignore
    expect(change({ changed: 1 }).sequence).toBe(1);
    expect([0, 1].map((i) => change({ read: 1 }).marked(i, 2))).toEqual([undefined, "left out"]);
    for (const odd of [undefined, {}, { by: 3 }, { order: "abc" }, { order: [0.5] }])
      expect(change(odd).marked(0, 1)).toBeUndefined();
  });

  test("the kinds of inputs are read from the record's words", () => {
    const found = kinds("input_ids: ids [2, 9], position_ids: places [1, 9]");
    expect([...found]).toEqual([["input_ids", "ids"], ["position_ids", "places"]]); // prettier-ignore
  });
});

describe("the link", () => {
  const page = report(row("causal", { fails: true, verdict: "broken" }), row("batch"), row("permute & <b>"));
  const of = stateOf(page);
  linkTests(of, { row: ["causal", "batch", "permute & <b>", "", "nonsense"], only: ["1", "on", "x"] });

  test("opens the rows that it names, and no others", () => {
    expect(of.read("#row=batch").rows).toEqual(["batch"]);
    expect(of.read("row=batch&row=batch&row=nonsense").rows).toEqual(["batch"]);
    expect(of.read("row=").rows).toEqual([]);
    expect(of.write({ rows: [], only: false })).toBe("row=");
  });

  test("by default the first failing row is open", () => {
    expect(of.initial().rows).toEqual(["causal"]);
    expect(stateOf(report(row("batch"))).initial().rows).toEqual([]);
  });

  test("failures only is a choice where something fails", () => {
    expect(stateOf(report(row("batch"))).read("only=1").only).toBe(false);
    expect(of.read("only=1").only).toBe(true);
  });
});

test("a row fails loudly, does not hold quietly, holds, or is undecided", () => {
  expect(tone(row("a", { verdict: "broken", fails: true }))).toBe("fails");
  expect(tone(row("a", { verdict: "broken" }))).toBe("not");
  expect(tone(row("a", { verdict: "holds" }))).toBe("holds");
  expect(tone(row("a", { verdict: "undecided" }))).toBe("undecided");
});

test("numbers of sentences are typeset as those of the page", () => {
  expect(typeset("off by 18.2 % (rounding alone: 5.6e-16).")).toBe("off by 18.2\u00a0% (rounding alone: 5.6·10⁻¹⁶).");
  expect(typeset("measured 4.8e-04, 4.1e-01 and 1.2e+00")).toBe("measured 4.8·10⁻⁴, 0.41 and 1.2");
  expect(typeset("see file 1e-run")).toBe("see file 1e-run");
});

test("no part of the report writes markup or runs text", () => {
  const folder = new URL("../src/pages/report/", import.meta.url);
  for (const name of ["page", "rows", "evidence", "counterexample", "trail", "errors", "scale", "typeset"])
    expect(readFileSync(new URL(`${name}.ts`, folder), "utf8")).not.toMatch(
      /innerHTML|outerHTML|insertAdjacent|eval\(|document\.write/,
    );
});

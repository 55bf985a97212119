import { expect, test } from "vitest";
import { permute, reverse, shift } from "../src/core/actions";
import { BORDER, equivariance, PRECISION, relativeError, verdict } from "../src/core/measure";
import { leavesOf } from "../src/core/program";
import { of } from "../src/core/tensor";
import { leaf, step, toy } from "./toy";

const leaves = leavesOf(toy);

test("a permutation moves words, a shift and a reversal move places", () => {
  const permuted = permute([2, 0, 1]).onInput(toy, leaves);
  expect(permuted.get("X")).toEqual(
    of([
      [1, 1],
      [1, 2],
      [0, 2],
    ]),
  );
  expect(permuted.get("at")).toBe(leaves.get("at"));
  expect(shift(5).onInput(toy, leaves).get("at")).toEqual(of([[5], [6], [8]]));
  expect(reverse().onInput(toy, leaves).get("at")).toEqual(of([[3], [2], [0]]));
  expect(reverse().onInput(toy, leaves).get("X")).toBe(leaves.get("X"));
});

test("ranks slide by whole numbers", () => {
  const programRecord = { leaves: [leaf("order", [0, 1, 2], "order", ["token"])], steps: [], outputs: [] };
  expect(shift(1.5).onInput(programRecord, leavesOf(programRecord)).get("order")).toEqual(of([1, 2, 3]));
  expect(reverse().onInput(programRecord, leavesOf(programRecord)).get("order")).toEqual(of([2, 1, 0]));
});

test("an attention map moves in rows and columns, a read-out not at all", () => {
  expect(
    permute([1, 0]).onOutput(
      of([
        [1, 2],
        [3, 4],
      ]),
      ["token", "token"],
    ),
  ).toEqual(
    of([
      [4, 3],
      [2, 1],
    ]),
  );
  expect(permute([1, 0]).onOutput(of([1, 2, 3]), ["feature"])).toEqual(of([1, 2, 3]));
});

test("a class token in front stays where it is", () => {
  const act = permute([1, 0], { fixed: 1 });
  expect(act.onOutput(of([[9], [1], [2]]), ["token", "feature"])).toEqual(of([[9], [2], [1]]));
  expect(act.onOutput(of([[1], [2]]), ["token", "feature"])).toEqual(of([[2], [1]]));
  const unheld = () => permute([1, 0]).onOutput(of([[9], [1], [2]]), ["token", "feature"]);
  expect(unheld).toThrow("An order of 2 words cannot move 3 rows (0 held).");
  const programRecord = { leaves: [leaf("at", [[3], [0], [1], [2]], "coordinate", ["token", "axis"])], steps: [], outputs: [] };
  expect(reverse({ fixed: 1 }).onInput(programRecord, leavesOf(programRecord)).get("at")).toEqual(of([[3], [2], [1], [0]]));
});

test("a relative error is 0 where both are 0, and infinite where only the wanted is", () => {
  expect(relativeError(of([0, 0]), of([0, 0]))).toBe(0);
  expect(relativeError(of([1, 0]), of([0, 0]))).toBe(Infinity);
  expect(relativeError(of([3, 4.5]), of([3, 4]))).toBeCloseTo(0.1, 15);
  expect(relativeError(of([NaN]), of([1]))).toBeNaN();
});

test.each([
  [0, 0, "holds"],
  [0, 1e-7, "holds"],
  [1e-16, 1e-7, "holds"],
  [1e-3, 1e-3, "approximate"],
  [0.5, 0.5, "broken"],
  [1e-2, 1, "broken"],
  [Infinity, 1, "undecided"],
  [0, NaN, "undecided"],
  [NaN, 0, "undecided"],
  [PRECISION ** BORDER, 1, "approximate"],
  [PRECISION ** BORDER * 0.999, 1, "holds"],
])("an error of %d, %d in float32, is %s", (error, error32, wanted) => expect(verdict(error, error32)).toBe(wanted));

test("words alone are equivariant, words with places are not", () => {
  expect(equivariance(toy, leaves, permute([2, 0, 1]), "K").verdict).toBe("holds");
  expect(equivariance(toy, leaves, permute([2, 0, 1]), "Y").verdict).toBe("broken");
  expect(equivariance(toy, leaves, shift(100), "Y").verdict).toBe("broken");
  expect(equivariance(toy, leaves, shift(100), "K").verdict).toBe("holds");
});

test("a difference of places notices a shift by rounding only", () => {
  const programRecord = {
    leaves: [leaf("at", [[0.1], [0.7]], "coordinate", ["token", "axis"])],
    steps: [step("atᵀ", "transpose", ["at"], {}, ["axis", "token"]), step("Δ", "distance", ["at", "atᵀ"], {}, ["token", "token"])],
    outputs: ["Δ"],
  };
  const { verdict, error, error32, floor } = equivariance(programRecord, leavesOf(programRecord), shift(1000.3), "Δ");
  expect(verdict).toBe("holds");
  expect(error).toBeLessThan(1e-12); // measured 8e-14: 1000 has lost ten bits
  expect(error32).toBeGreaterThan(1e-6);
  expect(floor).toBeLessThan(1e-15);
});

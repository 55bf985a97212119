import { expect, test } from "vitest";
import { permute } from "../src/core/actions";
import { differs } from "../src/core/measure";
import { moved } from "../src/core/moved";
import { leavesOf, Program } from "../src/core/program";
import { at } from "../src/core/tensor";
import { toy } from "./toy";

test("moved numbers are those of the action, and their operands move along", () => {
  const leaves = leavesOf(toy);
  const plain = new Program(toy, leaves);
  const run = { record: { scheme: "", setting: "", program: toy, claims: [] }, program: plain, leaves };
  const order = [2, 0, 1];
  const there = moved(run, permute(order), order).program;
  for (const id of ["X", "Q", "Y"]) order.forEach((row, i) => expect(at(there.get(id), [i, 1])).toBe(at(plain.get(id), [row, 1])));
  expect(there.get("Y")).toBe(there.get("Y"));
  expect(there.operands("Q", [0, 1])!.terms.filter((term) => "id" in term)).toEqual(
    plain
      .operands("Q", [2, 1])!
      .terms.filter((term) => "id" in term)
      .map((term) => (term.id === "X" ? { ...term, index: [0, term.index[1]] } : term)),
  );
});

test("numbers differ where rounding does not explain it", () => {
  expect(differs(1, 1 + 1e-12, 1)).toBe(false);
  expect(differs(1, 1.001, 1)).toBe(true);
  expect(differs(NaN, NaN, 1)).toBe(false);
  expect(differs(NaN, 1, 1)).toBe(true);
  expect(differs(-Infinity, -Infinity, 1)).toBe(false);
});

import { expect, test } from "vitest";
import { dependsOn, evaluate, leavesOf, poolOf, Program, StepError } from "../src/core/program";
import { edited, of } from "../src/core/tensor";
import { Watched } from "../src/pages/watched/program";
import { leaf, step, toy } from "./toy";

test("a program computes what is asked for", () => {
  const values = evaluate(toy, leavesOf(toy));
  expect(values.get("K")).toEqual(
    of([
      [3, 6],
      [2, 6],
      [2, 3],
    ]),
  );
  expect([...values.keys()]).toEqual(["X", "at", "W", "Q", "K", "P", "Y"]);
});

test("an edit computes again only what hangs on it", () => {
  const program = new Program(toy, leavesOf(toy));
  const before = ["Q", "K", "P", "Y"].map((id) => program.get(id));
  program.change([["W", edited(program.get("W"), [0, 0], 5)]]);
  const after = ["Q", "K", "P", "Y"].map((id) => program.get(id));
  expect(after.map((value, i) => value === before[i])).toEqual([false, false, true, false]);
});

test("the same numbers again compute nothing", () => {
  const [leaves, program] = [leavesOf(toy), new Program(toy, leavesOf(toy))];
  program.change(leaves);
  const y = program.get("Y");
  program.change(leaves);
  expect(program.get("Y")).toBe(y);
});

test("a step that fails names itself, its dependents fail alike, and an edit heals it", () => {
  const programRecord = {
    leaves: [leaf("table", [1, 2]), leaf("at", [0, 9])],
    steps: [step("row", "gather", ["table", "at"]), step("twice", "add", ["row", "row"]), step("fine", "add", ["at", "at"])],
    outputs: ["twice"],
  };
  const program = new Program(programRecord, leavesOf(programRecord));
  const failure = thrown(() => program.get("row"));
  expect(failure).toBeInstanceOf(StepError);
  expect(failure).toMatchObject({ step: "row" });
  expect((failure as Error).message).toContain("asks for row 9 of a table with rows 0..1");
  expect(thrown(() => program.get("twice"))).toBe(failure);
  expect(program.get("fine")).toEqual(of([0, 18]));
  program.change([["at", of([0, 1])]]);
  expect(program.get("twice")).toEqual(of([2, 4]));
});

test("rounding touches leaves and steps", () => {
  const programRecord = { leaves: [leaf("x", [0.1])], steps: [step("y", "add", ["x", "x"])], outputs: ["y"] };
  expect(evaluate(programRecord, leavesOf(programRecord), { round: Math.fround }).get("y")).toEqual(
    of([Math.fround(2 * Math.fround(0.1))]),
  );
});

test("a cell's explanation points at leaves and steps by id", () => {
  const program = new Program(toy, leavesOf(toy));
  const { terms, value } = program.operands("Q", [1, 0])!;
  expect(terms.flatMap((term) => ("id" in term ? [term] : []))).toEqual([
    { id: "X", index: [1, 0] },
    { id: "W", index: [0, 0] },
    { id: "X", index: [1, 1] },
    { id: "W", index: [1, 0] },
  ]);
  expect(value).toBe(2);
  expect(program.operands("X", [0, 0])).toBeUndefined();
});

test("a step knows the leaves under it", () => {
  expect([...dependsOn(toy, "P")]).toEqual(["at"]);
  expect([...dependsOn(toy, "Y")]).toEqual(["X", "at", "W"]);
});

test("shared arrays come from the pool, and a missing one is named", () => {
  const programRecord = { leaves: [{ ...leaf("W", 0), array: null, pool: "w" }], steps: [], outputs: [] };
  const pool = poolOf({ w: { shape: [1], dtype: "float64", data: [4] } });
  expect(leavesOf(programRecord, pool).get("W")).toBe(pool.get("w"));
  expect(() => leavesOf(programRecord)).toThrow("Leaf 'W' has no numbers: the pool has no 'w'.");
});

function thrown(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

test("a number of a step that is set by hand stays, and what follows is computed from it", () => {
  const program = new Watched(toy, leavesOf(toy));
  const before = program.get("Y");
  program.hold({ Q: { "0,1": 100 } });
  expect(program.get("Q").data[1]).toBe(100);
  expect(program.get("Y")).not.toEqual(before);
  program.hold({});
  expect(program.get("Y")).toEqual(before);
});

test("a step of loops runs what Python lowered, and its cells have no explanation", () => {
  const loops = {
    inputs: { x0: { slot: 0, shape: [2, 2] } },
    outputs: { y: { slot: 1, shape: [2] } },
    constants: [],
    sizes: [4, 2],
    steps: [{ op: "sum", shape: [2, 2], to: [1, 0, 1, 0], of: [[0, 0, 2, 1]] }],
  };
  const sum = { ...step("y", "loops", ["x"], { call: "sum" }), loops };
  const programRecord = {
    leaves: [
      leaf("x", [
        [1, 2],
        [3, 4],
      ]),
    ],
    steps: [sum],
    outputs: ["y"],
  };
  const program = new Watched(programRecord, leavesOf(programRecord));
  expect(program.get("y")).toEqual(of([3, 7]));
  expect(program.operands("y", [1])).toMatchObject({ terms: [], value: 7, note: expect.stringContaining("no explanation") });
  expect(() => new Program(programRecord, leavesOf(programRecord)).get("y")).toThrow("no loops here");
});

import { expect, test } from "vitest";
import type { StepRecord, ProgramRecord } from "../src/core/contract";
import { symbolOf } from "../src/core/names";
import { leaf, step } from "./toy";

const unnamed = (id: string, op: string, inputs: string[], params: StepRecord["params"] = {}): StepRecord => ({
  ...step(id, op, inputs, params),
  symbol: "",
});
const programRecord: ProgramRecord = {
  leaves: [leaf("W_R", [[1]]), leaf("i−j", [[1]])],
  steps: [
    unnamed("1", "transpose", ["W_R"]),
    unnamed("2", "transpose", ["i−j"]),
    unnamed("3", "transpose", ["1"]),
    unnamed("4", "function", ["2"], { kind: "log1p" }),
    unnamed("5", "transpose", ["4"]),
    unnamed("6", "maximum", ["1", "2"]),
  ],
  outputs: ["5"],
};

test("a step without a symbol of its own is called by what it does", () => {
  expect(programRecord.steps.map((found) => symbolOf(found, programRecord))).toEqual([
    "Wᵀ_R",
    "(i−j)ᵀ",
    "W_R",
    "log1p",
    "log1pᵀ",
    "max",
  ]);
});

test("the value that leaves a module has the module's name, and a step inside it its operation's", () => {
  const where = (found: StepRecord, module: string): StepRecord => ({ ...found, where: module });
  const layer: ProgramRecord = {
    leaves: [leaf("x", [[1]]), leaf("W", [[1]])],
    steps: [
      where(unnamed("1", "matmul", ["x", "W"]), "blocks.0.o_proj"),
      where(unnamed("2", "add", ["1", "x"]), "blocks.0.o_proj"),
      where(unnamed("3", "add", ["2", "x"]), "blocks.0"),
    ],
    outputs: ["3"],
  };
  expect(layer.steps.map((found) => symbolOf(found, layer))).toEqual(["·", "o proj", "add"]);
});

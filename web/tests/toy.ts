// A program small enough to check by hand: words through one map, and places added at the end.
import type { LeafRecord, StepRecord, ProgramRecord } from "../src/core/contract";
import { type Nested, of } from "../src/core/tensor";

export function leaf(id: string, numbers: Nested, kind: LeafRecord["kind"] = "weight", axes: string[] = []): LeafRecord {
  const { shape, data } = of(numbers);
  return { id, symbol: id, label: id, axes, kind, array: { shape, dtype: "float64", data: [...data] } };
}

export const step = (
  id: string,
  op: string,
  inputs: string[],
  params: StepRecord["params"] = {},
  axes: string[] = [],
): StepRecord => ({
  id,
  symbol: id,
  label: id,
  axes,
  op,
  inputs,
  params,
});

export const toy: ProgramRecord = {
  leaves: [
    leaf(
      "X",
      [
        [1, 2],
        [0, 2],
        [1, 1],
      ],
      "content",
      ["token", "feature"],
    ),
    leaf("at", [[0], [1], [3]], "coordinate", ["token", "axis"]),
    leaf(
      "W",
      [
        [1, 0],
        [1, 3],
      ],
      "weight",
      ["feature", "channel"],
    ),
  ],
  steps: [
    step("Q", "matmul", ["X", "W"], {}, ["token", "channel"]),
    step("K", "scale", ["Q"], { by: 1 }, ["token", "channel"]),
    step("P", "scale", ["at"], { by: 0.1 }, ["token", "axis"]),
    step("Y", "add", ["K", "P"], {}, ["token", "channel"]),
  ],
  outputs: ["Y"],
};

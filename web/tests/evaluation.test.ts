import { describe, expect, test } from "vitest";
import type { EvaluationRecord } from "../src/core/contract";
import { value } from "../src/pages/evaluation/metrics";
import { stateOf } from "../src/pages/evaluation/state";
import { linkTests } from "./links";

const record = (...parts: string[]): EvaluationRecord => ({
  run: "runs/a",
  task: "images",
  weights: "best",
  parts: parts.map((part) => ({ part, metrics: [] })),
});

describe("the link of an evaluation", () => {
  linkTests(stateOf(record("validation", "test")), { part: ["validation", "test", "train"] }, ["part=train"]);

  test("begins with the test part", () => {
    expect(stateOf(record("validation", "test")).initial().part).toBe("test");
    expect(stateOf(record("test", "validation")).initial().part).toBe("test");
    expect(stateOf(record("data")).initial().part).toBe("data");
  });
});

test("values have four digits, and counts are whole", () => {
  expect(value(0.894321)).toBe("0.8943");
  expect(value(10000)).toBe("10,000");
  expect(value(-0.00001234, "eV")).toBe("−1.234e-5 eV");
  expect(value(null)).toBe("no number");
});

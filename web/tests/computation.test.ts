// Functions of tensors that Python wrote down as steps: the page must give PyTorch's numbers, at inputs that the steps never saw.
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { computation, type Numbers } from "../src/core/computation";
import { KERNELS } from "../src/core/computation/kernels";
import type { Array as ArrayRecord, Computation, Loop } from "../src/core/contract";
import { unpack } from "../src/core/tensor";

interface Case {
  computation: Computation;
  asked: { inputs: Record<string, ArrayRecord>; outputs: Record<string, ArrayRecord> }[];
}

const FOLDER = new URL("../../contract/computations/", import.meta.url);
const files = readdirSync(FOLDER);
const read = (file: string): Record<string, Case> => JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"));
const cases = files.flatMap((file) => Object.entries(read(file)).map(([name, one]) => [`${file}, ${name}`, one] as const));
const numbers = (arrays: Record<string, ArrayRecord>): Numbers =>
  Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, unpack(array).data]));

/** The largest difference, relative to the largest number. */
function apart(found: Float64Array, wanted: Float64Array): number {
  const largest = wanted.reduce((size, x) => Math.max(size, Math.abs(x)), 1e-300);
  return (
    wanted.reduce((worst, x, i) => Math.max(worst, Math.abs(x - found[i])), found.length === wanted.length ? 0 : NaN) / largest
  );
}

test.each(cases)("%s: every output is PyTorch's, asked for together or alone", (_, { computation: record, asked }) => {
  const run = computation(record);
  expect(asked.length).toBeGreaterThan(0);
  for (const { inputs, outputs } of asked) {
    const [given, wanted] = [numbers(inputs), numbers(outputs)];
    const found = run(given);
    expect(Object.keys(found).sort()).toEqual(Object.keys(wanted).sort());
    for (const name of Object.keys(wanted)) {
      expect(apart(found[name], wanted[name]), name).toBeLessThan(1e-10); // of sums in another order, measured 2e-13
      expect(run(given, [name])[name], `${name} alone`).toEqual(found[name]);
    }
  }
});

test("a model that turns with its input turns in the page: energies stay, forces and arrows turn", () => {
  const { computation: record, asked } = read("in-space.json")["left and right"];
  const run = computation(record);
  const [before, after] = asked.map(({ inputs }) => run(numbers(inputs)));
  for (const name of ["energy", "each", "numbers", "weights"]) expect(apart(after[name], before[name]), name).toBeLessThan(1e-10);
  const turn = rotation([0.48, 0.6, 0.64], 100);
  expect(apart(after.forces, turned(before.forces, turn, 1))).toBeLessThan(1e-10);
  expect(apart(after.arrows, turned(before.arrows, turn, record.outputs.arrows.shape[2]))).toBeLessThan(1e-10);
  expect(apart(after.forces, before.forces)).toBeGreaterThan(0.1);
});

test("what is not asked for is not computed, and answers are kept when the next are asked for", () => {
  const { computation: record, asked } = read("in-space.json")["all see all"];
  const [first, second] = asked.map(({ inputs }) => numbers(inputs));
  const run = computation(record);
  const early = run(first, ["forces"]).forces;
  const kept = early.slice();
  run(second, ["forces"]);
  expect(early).toEqual(kept);
  const forward = { ...record, steps: record.steps.filter((step) => step.to[0] <= record.outputs.energy.slot) };
  expect(computation(forward)(first, ["energy"])).toEqual(run(first, ["energy"]));
});

test("every operation that the golden steps have is there, and all are tried", () => {
  const used = new Set(cases.flatMap(([, one]) => one.computation.steps.map((step) => step.op)));
  expect([...used].filter((op) => !(op in KERNELS))).toEqual([]);
  expect(Object.keys(KERNELS).filter((op) => !used.has(op))).toEqual([]);
});

test("unknown names, other lengths and unknown operations are refused with what is known", () => {
  const record = simple({ op: "neg", shape: [2], to: [1, 0, 1], of: [[0, 0, 1]] });
  const run = computation(record);
  expect(run({ x: Float64Array.of(1, 2) }).y).toEqual(Float64Array.of(-1, -2));
  expect(() => run({ x: Float64Array.of(1, 2) }, ["z"])).toThrow("There is no output called 'z'. Known: y.");
  expect(() => run({ x: Float64Array.of(1, 2), w: Float64Array.of(1) })).toThrow("There is no input called 'w'. Known: x.");
  expect(() => run({ x: Float64Array.of(1) })).toThrow("Input 'x' has shape [2], 2 numbers, but got 1.");
  expect(() => run({})).toThrow("but got none");
  const strange = computation(simple({ op: "fold", shape: [2], to: [1, 0, 1], of: [[0, 0, 1]] }));
  expect(() => strange({ x: Float64Array.of(1, 2) })).toThrow("There is no operation called 'fold'. Known: copy, ");
});

const simple = (step: Loop): Computation => ({
  inputs: { x: { slot: 0, shape: [2] } },
  outputs: { y: { slot: 1, shape: [2] } },
  constants: [],
  sizes: [2, 2],
  steps: [step],
});

/** The matrix of a turn about an axis of length 1, row by row (Rodrigues). */
function rotation([x, y, z]: number[], degrees: number): number[] {
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const d = 1 - c;
  return [
    x * x * d + c,
    x * y * d - z * s,
    x * z * d + y * s,
    y * x * d + z * s,
    y * y * d + c,
    y * z * d - x * s,
    z * x * d - y * s,
    z * y * d + x * s,
    z * z * d + c,
  ];
}

/** Arrows [N, 3, C], turned. */
function turned(arrows: Float64Array, turn: number[], channels: number): Float64Array {
  return arrows.map((_, place) => {
    const [channel, axis] = [place % channels, Math.floor(place / channels) % 3];
    const begin = place - axis * channels - channel;
    return [0, 1, 2].reduce((sum, i) => sum + turn[3 * axis + i] * arrows[begin + i * channels + channel], 0);
  });
}

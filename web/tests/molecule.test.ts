// Turns in space, the link of the page of a molecule, and what is called a bond.
import { describe, expect, test } from "vitest";
import type { Molecule } from "../src/contract";
import { apart, channel, row } from "../src/molecule/equivariance";
import { bonds, View } from "../src/molecule/scene";
import { fromHash, initial, near, toHash } from "../src/molecule/state";
import {
  about,
  after,
  angles,
  degrees,
  DEGREE,
  matrix,
  MIRROR,
  ofAngles,
  times,
  transposed,
  turned,
} from "../src/molecule/rotation";

const solver = { name: "e3", layers: 2, heads: 4, arrows: 8 };
const record = {
  frame: 0,
  said: ["", ""],
  atoms: [6, 1, 1],
  solvers: [solver, { ...solver, name: "plain", arrows: 0 }],
} as unknown as Molecule;
const close = (found: ArrayLike<number>, wanted: ArrayLike<number>) =>
  Array.from(wanted).forEach((value, i) => expect(found[i]).toBeCloseTo(value, 12));

describe("turns", () => {
  test("a quarter about the upright axis takes what is ahead to the right", () => {
    close(turned(Float64Array.of(0, 0, 1), matrix(about([0, 1, 0], 90 * DEGREE))), [1, 0, 0]);
  });

  test("one after the other is the product of their matrices", () => {
    const [a, b] = [about([1, 2, 3], 0.7), about([-1, 0.2, 1], 2.1)];
    close(matrix(after(a, b)), times(matrix(a), matrix(b)));
  });

  test("the transposed matrix turns back", () => {
    const m = times(matrix(about([1, 2, 3], 0.7)), MIRROR);
    close(times(m, transposed(m)), [1, 0, 0, 0, 1, 0, 0, 0, 1]);
  });

  test.each([[[30, 20, -50]], [[-170, -80, 10]], [[0, 0, 0]]])("angles %s come back", (wanted) => {
    close(angles(ofAngles(wanted as unknown as [number, number, number])), wanted);
  });

  test("straight up, two of the axes are one, and the turn is still the same", () => {
    const turn = ofAngles([25, 90, 40]);
    close(matrix(ofAngles(angles(turn))), matrix(turn));
  });

  test("its angle is at most half a turn", () => {
    expect(degrees(about([1, 0, 0], 200 * DEGREE))).toBeCloseTo(160, 10);
  });
});

describe("the link", () => {
  test("holds what differs, and comes back", () => {
    expect(toHash(initial(record), record)).toBe("");
    const state = {
      ...initial(record),
      frame: 1,
      mirror: true,
      atom: 2,
      head: 3,
      arrows: "4",
      right: "e3",
      moved: { 1: [0.05, -0.1, 0] as const },
    };
    expect(fromHash(toHash(state, record), record)).toEqual(state);
  });

  test.each(["frame=9&atom=7&head=99", "turn=0,0,0,0", "turn=a,b,c,d", "moved=9,1,1,1", "moved=1,2", "arrows=9", "left=nobody"])(
    "what does not fit falls back: %s",
    (hash) => {
      const found = fromHash(hash, record);
      expect(found.turn).toEqual([1, 0, 0, 0]);
      expect(found.moved).toEqual({});
      expect(found.arrows).toBe("forces");
      expect(found.left).toBe("e3");
      expect(found.head).toBeLessThan(4);
    },
  );

  test("nobody drags an atom out of sight", () => expect(Math.hypot(...near([30, 40, 0]))).toBeCloseTo(3, 12));
});

describe("what is drawn and measured", () => {
  test("water has two bonds", () => {
    const at = Float64Array.of(0, 0, 0, 0.96, 0, 0, -0.24, 0.93, 0);
    expect(bonds(at, [0.66, 0.31, 0.31])).toEqual([[0, 1], [0, 2]]); // prettier-ignore
  });

  test("what is in the middle stands in the middle, and what is near is larger", () => {
    const view = new View(5);
    view.size(400, 300);
    expect(view.seen([0, 0, 0])).toEqual({ x: 200, y: 150, near: 1 });
    expect(view.seen([0, 0, 2]).near).toBeGreaterThan(1);
    expect(view.seen([0, 5, 0]).y).toBeGreaterThan(0);
  });

  test("a row of a head, a channel of arrows, a relative difference", () => {
    const weights = Float64Array.from({ length: 2 * 2 * 3 * 3 }, (_, i) => i);
    expect([...row(weights, 3, 2, 1, 0, 2)]).toEqual([24, 25, 26]);
    expect([...channel(Float64Array.of(1, 2, 3, 4, 5, 6), 1, 2)]).toEqual([2, 4, 6]);
    expect(apart(Float64Array.of(3, 4), Float64Array.of(3, 0))).toBeCloseTo(4 / 3, 12);
    expect(apart(new Float64Array(2), new Float64Array(2))).toBe(0);
  });
});

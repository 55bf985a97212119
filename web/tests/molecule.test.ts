// Turns in space, the link of the page of a molecule, and what is called a bond.
import { describe, expect, test } from "vitest";
import type { Molecule } from "../src/core/contract";
import { relativeError, channel, row } from "../src/pages/molecule/equivariance";
import { bonds, View } from "../src/pages/molecule/scene";
import { near, stateOf } from "../src/pages/molecule/state";
import { linkTests } from "./links";
import {
  rotationAbout,
  compose,
  angles,
  degrees,
  DEGREE,
  matrix,
  MIRROR,
  ofAngles,
  matmul,
  transpose,
  rotated,
} from "../src/pages/molecule/rotation";

const solver = { name: "e3", layers: 2, heads: 4, vectors: 8 };
const record = {
  frame: 0,
  captions: ["", ""],
  atoms: [6, 1, 1],
  solvers: [solver, { ...solver, name: "plain", vectors: 0 }],
} as unknown as Molecule;
const close = (found: ArrayLike<number>, wanted: ArrayLike<number>, digits = 12) =>
  Array.from(wanted).forEach((value, i) => expect(found[i]).toBeCloseTo(value, digits));

describe("rotations", () => {
  test("90 degrees about the vertical axis take +z to +x", () => {
    close(rotated(Float64Array.of(0, 0, 1), matrix(rotationAbout([0, 1, 0], 90 * DEGREE))), [1, 0, 0]);
  });

  test("one after the other is the product of their matrices", () => {
    const [a, b] = [rotationAbout([1, 2, 3], 0.7), rotationAbout([-1, 0.2, 1], 2.1)];
    close(matrix(compose(a, b)), matmul(matrix(a), matrix(b)));
  });

  test("the transposed matrix is the inverse", () => {
    const m = matmul(matrix(rotationAbout([1, 2, 3], 0.7)), MIRROR);
    close(matmul(m, transpose(m)), [1, 0, 0, 0, 1, 0, 0, 0, 1]);
  });

  test.each([[[30, 20, -50]], [[-170, -80, 10]], [[0, 0, 0]]])("angles %s come back", (wanted) => {
    close(angles(ofAngles(wanted as unknown as [number, number, number])), wanted);
  });

  test("at the gimbal lock the rotation is still the same", () => {
    const turn = ofAngles([25, 90, 40]);
    close(matrix(ofAngles(angles(turn))), matrix(turn));
  });

  test("an angle is at most 180 degrees", () => {
    expect(degrees(rotationAbout([1, 0, 0], 200 * DEGREE))).toBeCloseTo(160, 10);
  });
});

describe("the link", () => {
  const of = stateOf(record);
  linkTests(
    of,
    { frame: ["1", "9"], rotation: ["0.5,0.5,0.5,0.5", "1,2,3,4", "0,0,0,0", "a,b,c,d"], mirror: ["on"], atom: ["2", "7"], left: ["plain", "e3", "nobody"], right: ["plain", "e3"], curve: ["forces"], vectors: ["none", "4", "9"], layer: ["1", "99"], head: ["3", "99"], labels: ["off", "on"], moved: ["1,0.05,-0.1,0;2,9,9,9", "0,-0,0,1e-9", "9,1,1,1", "1,2"] }, // prettier-ignore
    ["frame=9&atom=7&head=99", "rotation=0,0,0,0", "rotation=a,b,c,d", "moved=9,1,1,1", "moved=1,2", "vectors=9", "left=nobody"],
    (found, wanted) => {
      expect({ ...found, rotation: 0 }).toEqual({ ...wanted, rotation: 0 });
      close(found.rotation, wanted.rotation, 6);
    },
  );

  test("a rotation of a link has length 1", () => expect(Math.hypot(...of.read("rotation=1,2,3,4").rotation)).toBeCloseTo(1, 15));

  test("a displacement is bounded", () => expect(Math.hypot(...near([30, 40, 0]))).toBeCloseTo(3, 12));
});

describe("the scene and its measures", () => {
  test("water has two bonds", () => {
    const at = Float64Array.of(0, 0, 0, 0.96, 0, 0, -0.24, 0.93, 0);
    expect(bonds(at, [0.66, 0.31, 0.31])).toEqual([[0, 1], [0, 2]]); // prettier-ignore
  });

  test("the centre is projected to the centre, and near objects are larger", () => {
    const view = new View(5);
    view.size(400, 300);
    expect(view.seen([0, 0, 0])).toEqual({ x: 200, y: 150, near: 1 });
    expect(view.seen([0, 0, 2]).near).toBeGreaterThan(1);
    expect(view.seen([0, 5, 0]).y).toBeGreaterThan(0);
  });

  test("a row of a head, a channel of vectors, a relative error", () => {
    const weights = Float64Array.from({ length: 2 * 2 * 3 * 3 }, (_, i) => i);
    expect([...row(weights, 3, 2, 1, 0, 2)]).toEqual([24, 25, 26]);
    expect([...channel(Float64Array.of(1, 2, 3, 4, 5, 6), 1, 2)]).toEqual([2, 4, 6]);
    expect(relativeError(Float64Array.of(3, 4), Float64Array.of(3, 0))).toBeCloseTo(4 / 3, 12);
    expect(relativeError(new Float64Array(2), new Float64Array(2))).toBe(0);
  });
});

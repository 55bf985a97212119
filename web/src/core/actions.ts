// Actions: what one may do to the tokens of a program, and what a symmetric model does to its output in return. A permutation
// moves the words over places that stay; a shift or a reversal moves the places under words that stay.
// The twin of src/equiscope/symmetry/actions.py, acting on the leaves of a trace.
import type { LeafRecord, ProgramRecord } from "./contract";
import { map, size, type Tensor, zeros } from "./tensor";

export interface Action {
  readonly name: "permute" | "shift" | "reverse";
  /** The moved leaves; those that stay are the same objects. */
  onInput(programRecord: ProgramRecord, leaves: ReadonlyMap<string, Tensor>): Map<string, Tensor>;
  /** The moved output: every axis called "token" goes along, so an attention map moves in rows and columns. */
  onOutput(output: Tensor, axes: string[]): Tensor;
}

/** fixed: rows that the model puts in front of the words (a class token); they stay where they are. */
export interface Held {
  fixed?: number;
}

/** Permute the words: order[i] is the old word at position i. Rows in front of the words do not count. */
export function permute(order: number[], { fixed = 0 }: Held = {}): Action {
  const move: Move = (x, axes) => alongTokens(x, axes, order, fixed);
  return {
    name: "permute",
    onInput: (programRecord, leaves) => onLeaves(programRecord, leaves, { content: move, document: move, valid: move }),
    onOutput: move,
  };
}

/** Move the whole text along: every coordinate and every rank grows by the same number; ranks are whole. */
export function shift(by: number): Action {
  return {
    name: "shift",
    onInput: (programRecord, leaves) =>
      onLeaves(programRecord, leaves, {
        coordinate: (x) => map(x, (at) => at + by),
        order: (x) => map(x, (at) => at + Math.trunc(by)),
      }),
    onOutput: (output) => output,
  };
}

/** Reverse the positions. */
export function reverse({ fixed = 0 }: Held = {}): Action {
  const move: Move = (x, axes) => mirrored(x, axes.indexOf("token"), fixed);
  return {
    name: "reverse",
    onInput: (programRecord, leaves) => onLeaves(programRecord, leaves, { coordinate: move, order: move }),
    onOutput: (output) => output,
  };
}

type Move = (x: Tensor, axes: string[]) => Tensor;

function onLeaves(
  programRecord: ProgramRecord,
  leaves: ReadonlyMap<string, Tensor>,
  moves: Partial<Record<LeafRecord["kind"], Move>>,
): Map<string, Tensor> {
  const moved = new Map(leaves);
  for (const { id, kind, axes } of programRecord.leaves) {
    const [move, x] = [moves[kind], leaves.get(id)];
    if (move && x) moved.set(id, move(x, axes));
  }
  return moved;
}

function alongTokens(x: Tensor, axes: string[], order: number[], fixed: number): Tensor {
  return axes.reduce((out, name, axis) => (name === "token" ? inOrder(out, axis, order, fixed) : out), x);
}

function inOrder(x: Tensor, axis: number, order: number[], fixed: number): Tensor {
  const [out, { blocks, length, width }] = [zeros(x.shape), around(x, axis)];
  const front = length - order.length; // a leaf holds words only; what comes after the class token holds it too
  if (front !== 0 && front !== fixed)
    throw new Error(`An order of ${order.length} words cannot move ${length} rows (${fixed} held).`);
  const rows = [...Array(front).keys(), ...order.map((row) => row + front)];
  for (let block = 0; block < blocks; block++) {
    rows.forEach((row, i) => {
      const from = (block * length + row) * width;
      out.data.set(x.data.subarray(from, from + width), (block * length + i) * width);
    });
  }
  return out;
}

/** first + last − at along the tokens, for every other axis on its own. */
function mirrored(x: Tensor, axis: number, fixed: number): Tensor {
  if (axis < 0) return x;
  const { blocks, length, width } = around(x, axis);
  const out = { shape: x.shape, data: x.data.slice() };
  for (let line = 0; line < blocks * width; line++) {
    const start = Math.floor(line / width) * length * width + (line % width);
    const places = Array.from({ length: length - fixed }, (_, i) => start + (fixed + i) * width);
    const numbers = places.map((place) => x.data[place]);
    const ends = Math.min(...numbers) + Math.max(...numbers);
    places.forEach((place, i) => (out.data[place] = ends - numbers[i]));
  }
  return out;
}

/** How the numbers lie around an axis. */
const around = (x: Tensor, axis: number) => ({
  blocks: size(x.shape.slice(0, axis)),
  length: x.shape[axis],
  width: size(x.shape.slice(axis + 1)),
});

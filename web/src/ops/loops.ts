// loops: what no other operation is, as steps over strided numbers that Python lowered. The page runs them and explains no cell.
import { computation, type Run } from "../computation";
import type { Computation } from "../contract";
import { at, tensor } from "../tensor";
import { type Op, type Piece, pieces, symbol } from "./op";

const ready = new WeakMap<Computation, Run>();

function running(loops: Computation): Run {
  const known = ready.get(loops);
  if (known) return known;
  const made = computation(loops);
  ready.set(loops, made);
  return made;
}

export const loops: Op = {
  evaluate(inputs, _, loops) {
    if (!loops) throw new Error("This step has no loops.");
    const given = Object.fromEntries(inputs.map((x, i) => [`x${i}`, x.data]));
    return tensor(loops.outputs.y.shape, running(loops)(given).y);
  },
  explain: (_, { call }, index, output) => ({
    terms: [],
    value: at(output, index),
    note: `what torch's ${call} makes; this page computes it in loops and explains no cell of it`,
  }),
  formula: (symbols, { call }) => {
    const list = symbols.flatMap<Piece>((_, i) => (i ? [{ text: ", " }, symbol(i)] : [symbol(i)]));
    return pieces`${String(call)}(${list})`;
  },
};

// loops: what no other operation is, as steps over strided numbers that Python lowered. A program with a machine for them runs
// them (see Options in program.ts); no cell of them is explained.
import { at } from "../tensor";
import { type Op, type Piece, pieces, symbol } from "./op";

export const loops: Op = {
  evaluate() {
    throw new Error("This page has no machine for loops.");
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

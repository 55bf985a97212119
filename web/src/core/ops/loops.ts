// loops: what no other operation is, as steps over strided numbers that Python lowered. `Watched` in watched/program.ts runs them;
// no cell of them is explained.
import { at } from "../tensor";
import { type Op, pieces, symbol } from "./op";

export const loops: Op = {
  evaluate() {
    throw new Error("no loops here");
  },
  explain: (_, __, index, output) => ({ terms: [], value: at(output, index), note: "a cell of a loop has no explanation" }),
  formula: (symbols, { call, before }) =>
    pieces`${[call, before].filter(Boolean).join("∘")}(${symbols.flatMap((_, i) => [{ text: i ? ", " : "" }, symbol(i)])})`,
};

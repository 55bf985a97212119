// distance: of two positions, broadcast.
import { zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const distance: Op = {
  evaluate: ([a, b]) => zip(a, b, (x, y) => Math.abs(x - y)),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`|${a} − ${b}|`, value: Math.abs(x - y) };
  },
  formula: () => pieces`|${symbol(0)} − ${symbol(1)}|`,
};

// subtract: difference, broadcast.
import { zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const subtract: Op = {
  evaluate: ([a, b]) => zip(a, b, (x, y) => x - y),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`${a} − ${b}`, value: x - y };
  },
  formula: () => pieces`${symbol(0)} − ${symbol(1)}`,
};

// divide: quotient number by number, broadcast.
import { zip } from "../tensor";
import { type Op, pair, symbol, terms } from "./op";

export const divide: Op = {
  evaluate: ([a, b]) => zip(a, b, (x, y) => x / y),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`${a} / ${b}`, value: x / y };
  },
  formula: () => [{ frac: [[symbol(0)], [symbol(1)]] }],
};

// not_after: whether a <= b, as 1 or 0, broadcast.
import { zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const not_after: Op = {
  evaluate: ([a, b]) => zip(a, b, (x, y) => Number(x <= y)),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`${a} ≤ ${b}`, value: Number(x <= y), note: x <= y ? "yes" : "no" };
  },
  formula: () => pieces`${symbol(0)} ≤ ${symbol(1)}`,
};

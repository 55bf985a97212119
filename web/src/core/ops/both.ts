// both: logical and, as 1 or 0, broadcast.
import { zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const both: Op = {
  evaluate: ([a, b]) => zip(a, b, (x, y) => Number(x !== 0 && y !== 0)),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`${a} ∧ ${b}`, value: Number(x !== 0 && y !== 0), note: x !== 0 && y !== 0 ? "yes" : "no" };
  },
  formula: () => pieces`${symbol(0)} ∧ ${symbol(1)}`,
};

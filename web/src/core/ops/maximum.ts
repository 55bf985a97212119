// maximum: the larger of two numbers, broadcast.
import { zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const maximum: Op = {
  evaluate: ([a, b]) => zip(a, b, (x, y) => Math.max(x, y)),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`max(${a}, ${b})`, value: Math.max(x, y) };
  },
  formula: () => pieces`max(${symbol(0)}, ${symbol(1)})`,
};

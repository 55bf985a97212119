// add: sum, broadcast.
import { type Tensor, zeros, zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const add: Op = {
  evaluate: ([a, b]) => (alike(a, b) ? sum(a, b) : zip(a, b, (x, y) => x + y)),
  explain(inputs, _, index) {
    const {
      cells: [a, b],
      numbers: [x, y],
    } = pair(inputs, index);
    return { terms: terms`${a} + ${b}`, value: x + y };
  },
  formula: () => pieces`${symbol(0)} + ${symbol(1)}`,
};

const alike = (a: Tensor, b: Tensor): boolean => a.shape.length === b.shape.length && a.shape.every((n, i) => n === b.shape[i]);

function sum(a: Tensor, b: Tensor): Tensor {
  const out = zeros(a.shape);
  for (let i = 0; i < out.data.length; i++) out.data[i] = a.data[i] + b.data[i];
  return out;
}

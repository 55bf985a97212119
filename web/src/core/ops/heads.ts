// heads: [..., N, H*K] to [..., H, N, K]: the columns of each head become a matrix of their own.
import { reshape, swapped } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const heads: Op = {
  evaluate([x], { count }) {
    const [columns, number] = [x.shape[x.shape.length - 1], Number(count)];
    if (columns % number) throw new Error(`${number} heads do not divide ${columns} columns.`);
    return swapped(reshape(x, [...x.shape.slice(0, -1), number, columns / number]), -3, -2);
  },
  explain([x], { count }, index) {
    const [head, row, column] = index.slice(-3);
    const from = head * (x.shape[x.shape.length - 1] / Number(count)) + column;
    return moved(x, [...index.slice(0, -3), row, from], `column ${from} belongs to head ${head}`);
  },
  formula: () => pieces`heads(${symbol(0)})`,
};

// row: a list [..., N] as a row [..., 1, N].
import { reshape } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const row: Op = {
  evaluate: ([x]) => reshape(x, [...x.shape.slice(0, -1), 1, ...x.shape.slice(-1)]),
  explain: ([x], _, index) => moved(x, [...index.slice(0, -2), ...index.slice(-1)]),
  formula: () => pieces`${symbol(0)}`,
};

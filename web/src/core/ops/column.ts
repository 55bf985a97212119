// column: a list [..., N] as a column [..., N, 1].
import { reshape } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const column: Op = {
  evaluate: ([x]) => reshape(x, [...x.shape, 1]),
  explain: ([x], _, index) => moved(x, index.slice(0, -1)),
  formula: () => pieces`${symbol(0)}`,
};

// broadcast_heads: [..., N, M] to [..., 1, N, M]: the same for all heads of each sequence in a batch.
import { reshape } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const broadcast_heads: Op = {
  evaluate: ([x]) => reshape(x, [...x.shape.slice(0, -2), 1, ...x.shape.slice(-2)]),
  explain: ([x], _, index) => moved(x, [...index.slice(0, -3), ...index.slice(-2)]),
  formula: () => pieces`${symbol(0)}`,
};

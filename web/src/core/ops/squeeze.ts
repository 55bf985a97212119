// squeeze: a column [..., N, 1] as a list [..., N]; as in torch, a last axis that is longer stays.
import { reshape } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const squeeze: Op = {
  evaluate: ([x]) => (x.shape.at(-1) === 1 ? reshape(x, x.shape.slice(0, -1)) : x),
  explain: ([x], _, index) => moved(x, x.shape.at(-1) === 1 ? [...index, 0] : index),
  formula: () => pieces`${symbol(0)}`,
};

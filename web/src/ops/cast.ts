// cast: the same numbers in another dtype. The page computes in float64 throughout, so nothing changes here.
import { moved, type Op, pieces, symbol } from "./op";

export const cast: Op = {
  evaluate: ([x]) => ({ shape: x.shape, data: x.data }),
  explain: ([x], { dtype }, index) => moved(x, index, `in ${dtype} in the model; this page keeps float64`),
  formula: () => pieces`${symbol(0)}`,
};

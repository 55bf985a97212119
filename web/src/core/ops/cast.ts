// cast: the same numbers in another dtype. The page computes in float64 throughout, so only a fraction can be lost, to whole numbers.
import { at, map } from "../tensor";
import { cell, moved, type Op, type Params, pieces, symbol, terms } from "./op";

const whole = ({ dtype }: Params): boolean => /^u?int/.test(String(dtype));

export const cast: Op = {
  evaluate: ([x], params) => (whole(params) ? map(x, Math.trunc) : { shape: x.shape, data: x.data }),
  explain: ([x], params, index) =>
    whole(params)
      ? { terms: terms`trunc(${cell(0, index)})`, value: Math.trunc(at(x, index)) }
      : moved(x, index, `in ${params.dtype} in the model; this page keeps float64`),
  formula: () => pieces`${symbol(0)}`,
};

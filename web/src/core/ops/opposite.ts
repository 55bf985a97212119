// opposite: logical not, as 1 or 0.
import { at, map } from "../tensor";
import { cell, type Op, pieces, symbol, terms } from "./op";

export const opposite: Op = {
  evaluate: ([x]) => map(x, (flag) => Number(flag === 0)),
  explain([x], _, index) {
    const no = at(x, index) === 0;
    return { terms: terms`¬${cell(0, index)}`, value: Number(no), note: no ? "yes" : "no" };
  },
  formula: () => pieces`¬${symbol(0)}`,
};

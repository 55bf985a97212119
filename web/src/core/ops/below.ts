// below: whether a number is smaller than a given one, as 1 or 0.
import { at, map } from "../tensor";
import { cell, type Op, pieces, short, symbol, terms } from "./op";

export const below: Op = {
  evaluate: ([x], { number }) => map(x, (value) => Number(value < Number(number))),
  explain([x], { number }, index) {
    const yes = at(x, index) < Number(number);
    return { terms: terms`${cell(0, index)} < ${short(Number(number))}`, value: Number(yes), note: yes ? "yes" : "no" };
  },
  formula: (_, { number }) => pieces`${symbol(0)} < ${short(Number(number))}`,
};

// block: which block of `size` a whole number falls into.
import { at, map } from "../tensor";
import { cell, type Op, pieces, symbol, terms } from "./op";

export const block: Op = {
  evaluate: ([x], { size }) => map(x, (value) => Math.floor(value / Number(size))),
  explain: ([x], { size }, index) => ({
    terms: terms`⌊${cell(0, index)} / ${Number(size)}⌋`,
    value: Math.floor(at(x, index) / Number(size)),
  }),
  formula: (_, { size }) => pieces`⌊${symbol(0)} / ${Number(size)}⌋`,
};

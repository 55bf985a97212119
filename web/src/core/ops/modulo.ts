// modulo: what is left after division by a whole number, in 0 .. by − 1 for negative numbers too (in JavaScript −1 % 3 is −1).
import { at, map } from "../tensor";
import { cell, type Op, pieces, symbol, terms } from "./op";

export const modulo: Op = {
  evaluate: ([x], { by }) => map(x, (value) => left(value, Number(by))),
  explain: ([x], { by }, index) => ({ terms: terms`${cell(0, index)} mod ${Number(by)}`, value: left(at(x, index), Number(by)) }),
  formula: (_, { by }) => pieces`${symbol(0)} mod ${Number(by)}`,
};

function left(x: number, by: number): number {
  const rest = x % by;
  return rest < 0 ? rest + by : rest;
}

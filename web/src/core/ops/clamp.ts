// clamp: each number, but not below `low` and not above `high`.
import { at, map } from "../tensor";
import { cell, moved, type Op, pieces, short, symbol, terms } from "./op";

export const clamp: Op = {
  evaluate: ([x], { low, high }) => map(x, (value) => Math.min(Math.max(value, Number(low)), Number(high))),
  explain([x], params, index) {
    const [mine, value, low, high] = [cell(0, index), at(x, index), Number(params.low), Number(params.high)];
    if (value > high) return { terms: terms`min(${mine}, ${short(high)})`, value: high, note: `not above ${short(high)}` };
    if (value < low) return { terms: terms`max(${mine}, ${short(low)})`, value: low, note: `not below ${short(low)}` };
    return moved(x, index, `between ${short(low)} and ${short(high)} already`);
  },
  formula: (_, { low, high }) => pieces`clamp(${symbol(0)}, ${short(Number(low))}, ${short(Number(high))})`,
};

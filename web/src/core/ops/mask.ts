// mask: the scores where the mask allows, −∞ elsewhere; the softmax maps −∞ to a weight of 0.
import { zip } from "../tensor";
import { type Op, pair, pieces, symbol, terms } from "./op";

export const mask: Op = {
  evaluate: ([scores, visible]) => zip(scores, visible, (score, seen) => (seen ? score : -Infinity)),
  explain(inputs, _, index) {
    const {
      cells: [score, permission],
      numbers: [value, seen],
    } = pair(inputs, index);
    return seen
      ? { terms: [score], value, note: "allowed", more: [permission] }
      : { terms: terms`−∞`, value: -Infinity, note: "masked", more: [score, permission] };
  },
  formula: () => pieces`${symbol(0)} where ${symbol(1)}, else −∞`,
};

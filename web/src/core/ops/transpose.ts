// transpose: rows become columns.
import { swapped } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const transpose: Op = {
  evaluate: ([x]) => swapped(x),
  explain([x], _, index) {
    const [row, column] = index.slice(-2);
    return moved(x, [...index.slice(0, -2), column, row]);
  },
  formula: () => pieces`${symbol(0)}${{ sup: [{ text: "T" }] }}`,
};

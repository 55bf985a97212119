// join: [..., H, N, V] to [..., N, H*V]: the heads side by side.
import { reshape, swapped } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const join: Op = {
  evaluate([x]) {
    const [count, rows, columns] = x.shape.slice(-3);
    return reshape(swapped(x, -3, -2), [...x.shape.slice(0, -3), rows, count * columns]);
  },
  explain([x], _, index) {
    const [row, column] = index.slice(-2);
    const width = x.shape[x.shape.length - 1];
    const head = Math.floor(column / width);
    return moved(x, [...index.slice(0, -2), head, row, column % width], `column ${column % width} of head ${head}`);
  },
  formula: () => pieces`concat(${symbol(0)})`,
};

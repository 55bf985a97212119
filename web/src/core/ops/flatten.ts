// flatten: all rows behind one another, [..., N, D] to [..., N*D].
import { reshape } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const flatten: Op = {
  evaluate: ([x]) => reshape(x, [...x.shape.slice(0, -2), x.shape[x.shape.length - 2] * x.shape[x.shape.length - 1]]),
  explain([x], _, index) {
    const [place, width] = [index[index.length - 1], x.shape[x.shape.length - 1]];
    return moved(x, [...index.slice(0, -1), Math.floor(place / width), place % width]);
  },
  formula: () => pieces`vec(${symbol(0)})`,
};

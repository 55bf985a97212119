// pick: one row, [..., N, D] to [..., D]; index counts from the end where negative.
import { size, type Tensor, zeros } from "../tensor";
import { moved, type Op, type Params, pieces, symbol } from "./op";

export const pick: Op = {
  evaluate([x], params) {
    const [[rows, width], row] = [x.shape.slice(-2), rowOf(x, params)];
    const lead = x.shape.slice(0, -2);
    const out = zeros([...lead, width]);
    for (let m = 0; m < size(lead); m++) {
      const start = (m * rows + row) * width;
      out.data.set(x.data.subarray(start, start + width), m * width);
    }
    return out;
  },
  explain: ([x], params, index) =>
    moved(x, [...index.slice(0, -1), rowOf(x, params), index[index.length - 1]], `row ${rowOf(x, params)}`),
  formula: (_, { index }) => pieces`${symbol(0)}${{ sub: [{ text: Number(index) === -1 ? "last" : String(index) }] }}`,
};

function rowOf(x: Tensor, { index }: Params): number {
  const [rows, asked] = [x.shape[x.shape.length - 2], Number(index)];
  if (asked >= rows || asked < -rows) throw new Error(`asks for row ${asked} of ${rows}`);
  return asked < 0 ? rows + asked : asked;
}

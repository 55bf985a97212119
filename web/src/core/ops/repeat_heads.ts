// repeat_heads: [..., H, N, K] to [..., H*times, N, K]: each head serves `times` heads that lie side by side (grouped queries).
import { zeros } from "../tensor";
import { moved, type Op, pieces, symbol } from "./op";

export const repeat_heads: Op = {
  evaluate([x], params) {
    const [times, [count, rows, width]] = [Number(params.times), x.shape.slice(-3)];
    const [out, matrix] = [zeros([...x.shape.slice(0, -3), count * times, rows, width]), rows * width];
    for (let to = 0; to * matrix < out.data.length; to++) {
      const from = Math.floor(to / times) * matrix;
      out.data.set(x.data.subarray(from, from + matrix), to * matrix);
    }
    return out;
  },
  explain([x], { times }, index) {
    const [head, row, column] = index.slice(-3);
    const from = Math.floor(head / Number(times));
    return moved(x, [...index.slice(0, -3), from, row, column], `head ${from}, which serves ${times} heads`);
  },
  formula: (_, { times }) => pieces`repeat(${symbol(0)}, ${Number(times)})`,
};

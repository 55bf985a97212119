// columns: some columns, [..., D] to [..., stop − start].
import { type Tensor, zeros } from "../tensor";
import { moved, type Op, type Params, pieces, symbol } from "./op";

export const columns: Op = {
  evaluate([x], params) {
    const [wide, { start, stop }] = [x.shape[x.shape.length - 1], range(x, params)];
    const [width, out] = [stop - start, zeros([...x.shape.slice(0, -1), stop - start])];
    for (let to = 0, from = start; to < out.data.length; to += width, from += wide) {
      out.data.set(x.data.subarray(from, from + width), to);
    }
    return out;
  },
  explain([x], params, index) {
    const column = range(x, params).start + index[index.length - 1];
    return moved(x, [...index.slice(0, -1), column], `column ${column}`);
  },
  formula: (_, { start, stop }) => pieces`${symbol(0)}${{ sub: [{ text: `${start}…${Number(stop) - 1}` }] }}`,
};

function range(x: Tensor, params: Params) {
  const [wide, start, stop] = [x.shape[x.shape.length - 1], Number(params.start), Number(params.stop)];
  if (!(start >= 0 && start < stop && stop <= wide)) {
    throw new Error(`asks for columns ${start}..${stop - 1} of columns 0..${wide - 1}.`);
  }
  return { start, stop };
}

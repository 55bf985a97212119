// scale: times one number, written 1/√root where that is what it is.
import { at, zeros } from "../tensor";
import { cell, type Op, type Params, pieces, short, symbol, terms } from "./op";

export const scale: Op = {
  evaluate([x], params) {
    const [out, by] = [zeros(x.shape), Number(params.by)];
    for (let i = 0; i < out.data.length; i++) out.data[i] = x.data[i] * by;
    return out;
  },
  explain: ([x], params, index) => ({ terms: written(cell(0, index), params), value: at(x, index) * Number(params.by) }),
  formula(_, { by, root }) {
    if (root) return [{ frac: [[symbol(0)], [{ sqrt: [{ text: String(root) }] }]] }];
    return by === -1 ? pieces`−${symbol(0)}` : pieces`${short(Number(by))}·${symbol(0)}`;
  },
};

function written(x: ReturnType<typeof cell>, { by, root }: Params) {
  if (root) return terms`${x} / √${Number(root)}`;
  return by === -1 ? terms`−${x}` : terms`${x}·${short(Number(by))}`;
}

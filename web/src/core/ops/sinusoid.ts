// sinusoid: the sine and the cosine of each angle, side by side (interleaved) or in halves; "sine" keeps the sine only.
import { at, type Tensor, zeros } from "../tensor";
import { cell, type Op, type Params, pieces, symbol, terms } from "./op";

export const sinusoid: Op = {
  evaluate([angles], { layout }) {
    const width = angles.shape[angles.shape.length - 1];
    const out = zeros([...angles.shape.slice(0, -1), layout === "sine" ? width : 2 * width]);
    const [step, cosine] = layout === "interleaved" ? [2, 1] : [1, width];
    const wide = out.shape[out.shape.length - 1];
    for (let i = 0; i < angles.data.length; i++) {
      const to = Math.floor(i / width) * wide + (i % width) * step;
      out.data[to] = Math.sin(angles.data[i]);
      if (layout !== "sine") out.data[to + cosine] = Math.cos(angles.data[i]);
    }
    return out;
  },
  explain([angles], params, index) {
    const [column, turned] = source(angles, params, index[index.length - 1]);
    const from = [...index.slice(0, -1), column];
    const angle = at(angles, from);
    return turned
      ? { terms: terms`cos(${cell(0, from)})`, value: Math.cos(angle) }
      : { terms: terms`sin(${cell(0, from)})`, value: Math.sin(angle) };
  },
  formula: (_, { layout }) => (layout === "sine" ? pieces`sin(${symbol(0)})` : pieces`[sin(${symbol(0)}), cos(${symbol(0)})]`),
};

/** Which angle a column shows, and whether as its cosine. */
function source(angles: Tensor, { layout }: Params, column: number): [number, boolean] {
  const width = angles.shape[angles.shape.length - 1];
  if (layout === "interleaved") return [column >> 1, column % 2 === 1];
  return [column % width, layout !== "sine" && column >= width];
}

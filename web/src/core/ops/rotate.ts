// rotate: pairs of columns (a, b) turn to (a cos − b sin, a sin + b cos). Pairs are columns (2w, 2w+1) for "interleaved" and
// (w, w+W) for "half"; columns beyond 2W pass unchanged. Angles [N, W], or [B, N, W] for x [B, H, N, K], or [..., H, N, W].
import { aligned, at, broadcast, reshape, spread, type Tensor, zeros } from "../tensor";
import { cell, moved, type Op, type Params, pieces, symbol, terms } from "./op";

export const rotate: Op = {
  evaluate([x, given], { layout }) {
    const angles = overHeads(x, given);
    const [wide, width] = widths(x, angles);
    const lead = broadcast(x.shape.slice(0, -1), angles.shape.slice(0, -1));
    const [rowsX, rowsT] = [spread(x.shape.slice(0, -1), lead, wide), spread(angles.shape.slice(0, -1), lead, width)];
    const out = zeros([...lead, wide]);
    const [step, partner] = layout === "interleaved" ? [2, 1] : [1, width];
    for (let row = 0; row < rowsX.length; row++) {
      for (let w = 0; w < width; w++) {
        const from = rowsX[row] + w * step,
          to = row * wide + w * step,
          angle = angles.data[rowsT[row] + w];
        const cosine = Math.cos(angle),
          sine = Math.sin(angle);
        out.data[to] = x.data[from] * cosine - x.data[from + partner] * sine;
        out.data[to + partner] = x.data[from] * sine + x.data[from + partner] * cosine;
      }
      for (let k = 2 * width; k < wide; k++) out.data[row * wide + k] = x.data[rowsX[row] + k];
    }
    return out;
  },
  explain([x, given], params, index) {
    const [row, column] = [index.slice(0, -1), index[index.length - 1]];
    const [, width] = widths(x, given);
    const rowX = aligned(row, x.shape.slice(0, -1));
    if (column >= 2 * width) return moved(x, [...rowX, column], "this column is not rotated");
    const { w, first, second, isSecond } = pairOf(column, width, params);
    const [a, b] = [
      [...rowX, first],
      [...rowX, second],
    ];
    const turn = [...angleRow(row, x, given), w];
    const [cosine, sine] = [Math.cos(at(given, turn)), Math.sin(at(given, turn))];
    const θ = cell(1, turn);
    return isSecond
      ? { terms: terms`${cell(0, a)}·sin(${θ}) + ${cell(0, b)}·cos(${θ})`, value: at(x, a) * sine + at(x, b) * cosine }
      : { terms: terms`${cell(0, a)}·cos(${θ}) − ${cell(0, b)}·sin(${θ})`, value: at(x, a) * cosine - at(x, b) * sine };
  },
  formula: () => pieces`R(${symbol(1)}) ${symbol(0)}`,
};

/** Angles of fewer axes than x serve all heads of a sequence: [B, N, W] as [B, 1, N, W]. */
const areShared = (x: Tensor, { shape }: Tensor): boolean => shape.length > 2 && shape.length < x.shape.length;

function overHeads(x: Tensor, angles: Tensor): Tensor {
  return areShared(x, angles) ? reshape(angles, [...angles.shape.slice(0, -2), 1, ...angles.shape.slice(-2)]) : angles;
}

/** The row of the given angles that turns a row of the output: without the head where they are shared. */
function angleRow(row: number[], x: Tensor, given: Tensor): number[] {
  const place = aligned(row, overHeads(x, given).shape.slice(0, -1));
  return areShared(x, given) ? [...place.slice(0, -2), ...place.slice(-1)] : place;
}

function widths(x: Tensor, angles: Tensor): [number, number] {
  const [wide, width] = [x.shape[x.shape.length - 1], angles.shape[angles.shape.length - 1]];
  if (2 * width > wide) throw new Error(`${width} angles rotate ${2 * width} columns, but there are ${wide}.`);
  return [wide, width];
}

function pairOf(column: number, width: number, { layout }: Params) {
  const [w, isSecond] = layout === "interleaved" ? [column >> 1, column % 2 === 1] : [column % width, column >= width];
  const [first, second] = layout === "interleaved" ? [2 * w, 2 * w + 1] : [w, w + width];
  return { w, first, second, isSecond };
}

// softmax: weights along the last axis that sum to 1; a fully masked row gives 0, never NaN.
import { offset, type Tensor, zeros } from "../tensor";
import { cell, type Explanation, listing, type Op, pieces, symbol, terms } from "./op";

export const softmax: Op = {
  evaluate([x]) {
    const [out, width] = [zeros(x.shape), x.shape.at(-1) ?? 1];
    for (let start = 0; start < x.data.length; start += width) weights(x.data, out.data, start, start + width);
    return out;
  },
  explain([x], _, index) {
    const row = rowAt(x, index);
    const seen = row.filter(({ score }) => score !== -Infinity);
    const hidden = row.filter(({ score }) => score === -Infinity).map(({ place }) => place);
    if (!seen.length) return { terms: terms`0`, value: 0, note: "every score of this row is masked", more: hidden };
    const { terms: sum, more } = listing(
      seen.map(({ place }) => terms`e^${place}`),
      " + ",
    );
    const value = weight(
      row.map(({ score }) => score),
      index[index.length - 1],
    );
    return { terms: terms`e^${cell(0, index)} / (${sum})`, value, note: note(hidden.length), more: [...more, ...hidden] };
  },
  formula: () => pieces`softmax(${symbol(0)})`,
};

function weights(x: Float64Array, out: Float64Array, start: number, end: number): void {
  let [top, total] = [-Infinity, 0];
  for (let i = start; i < end; i++) if (x[i] > top) top = x[i];
  if (!Number.isFinite(top)) top = 0;
  for (let i = start; i < end; i++) total += out[i] = Math.exp(x[i] - top);
  if (total === 0) return;
  for (let i = start; i < end; i++) out[i] /= total;
}

function rowAt(x: Tensor, index: number[]) {
  const lead = index.slice(0, -1);
  const width = x.shape.at(-1) ?? 1;
  const start = offset(x.shape, [...lead, 0]);
  return Array.from({ length: width }, (_, j) => ({ place: cell(0, [...lead, j]), score: x.data[start + j] }));
}

/** 1 over the sum of all e^(their score − mine): the same number by another way. */
const weight = (scores: number[], mine: number): number =>
  scores[mine] === -Infinity ? 0 : 1 / scores.reduce((sum, score) => sum + Math.exp(score - scores[mine]), 0);

const note = (hidden: number): Explanation["note"] =>
  `computed with the row's maximum subtracted from every score, which does not change the result${hidden ? `; ${hidden} masked, e^(−∞) = 0` : ""}`;

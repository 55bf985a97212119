// mean: over rows, [..., N, D] to [..., D]; with valid [..., N], over those rows only.
import { aligned, at, broadcast, spread, type Tensor, zeros } from "../tensor";
import { cell, listing, type Op, pieces, symbol, terms } from "./op";

export const mean: Op = {
  evaluate([x, valid]) {
    const [rows, width] = x.shape.slice(-2);
    const lead = broadcast(x.shape.slice(0, -2), valid ? lists(x, valid) : []);
    const out = zeros([...lead, width]);
    const fromX = spread(x.shape.slice(0, -2), lead, rows * width);
    const fromV = spread(valid?.shape.slice(0, -1) ?? [], lead, rows);
    for (let m = 0; m < fromX.length; m++) {
      let count = 0;
      for (let n = 0; n < rows; n++) {
        const weight = valid ? valid.data[fromV[m] + n] : 1;
        count += weight;
        for (let d = 0; d < width; d++) out.data[m * width + d] += x.data[fromX[m] + n * width + d] * weight;
      }
      for (let d = 0; d < width; d++) out.data[m * width + d] /= valid ? Math.max(count, 1) : count;
    }
    return out;
  },
  explain([x, valid], _, index) {
    const [lead, d] = [index.slice(0, -1), index[index.length - 1]];
    const places = Array.from({ length: x.shape[x.shape.length - 2] }, (_, n) => [...aligned(lead, x.shape.slice(0, -2)), n, d]);
    const flags = valid ? places.map((_, n) => [...aligned(lead, valid.shape.slice(0, -1)), n]) : [];
    const asked = flags.map((flag) => cell(1, flag));
    const kept = places.filter((_, n) => !valid || at(valid, flags[n]) !== 0);
    if (!kept.length) return { terms: terms`0`, value: 0, note: "all rows are masked", more: asked };
    const { terms: sum, more } = listing(
      kept.map((place) => terms`${cell(0, place)}`),
      " + ",
    );
    const value = kept.reduce((total, place) => total + at(x, place), 0) / kept.length;
    return { terms: terms`(${sum}) / ${kept.length}`, value, more: [...more, ...asked] };
  },
  formula: (symbols) => (symbols.length > 1 ? pieces`mean(${symbol(0)} where ${symbol(1)})` : pieces`mean(${symbol(0)})`),
};

/** Leading axes of `valid`. Throws where it has not one entry a row. */
function lists(x: Tensor, valid: Tensor): number[] {
  if (valid.shape.at(-1) !== x.shape.at(-2))
    throw new Error(`${x.shape.at(-2)} rows need one flag each, found ${valid.shape.at(-1)}.`);
  return valid.shape.slice(0, -1);
}

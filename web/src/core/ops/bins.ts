// bins: the twin of take, x [..., N, M] by index [..., N, M] to [..., N, count]: out[i, r] sums x[i, j] over the j with
// index[i, j] = r. An index loses its fraction, and one without a bin is refused.
import { aligned, at, broadcast, spread, zeros } from "../tensor";
import { cell, listing, type Op, pieces, symbol, terms } from "./op";

export const bins: Op = {
  evaluate([x, index], params) {
    const [count, width] = [Number(params.count), x.shape[x.shape.length - 1]];
    if (index.shape.at(-1) !== width) throw new Error(`${width} columns need one bin each, found ${index.shape.at(-1)}.`);
    const lead = broadcast(x.shape.slice(0, -1), index.shape.slice(0, -1));
    const out = zeros([...lead, count]);
    const [rowsX, rowsI] = [spread(x.shape.slice(0, -1), lead, width), spread(index.shape.slice(0, -1), lead, width)];
    for (let row = 0; row < rowsX.length; row++) {
      for (let j = 0; j < width; j++) {
        const bin = Math.trunc(index.data[rowsI[row] + j]);
        if (!(bin >= 0 && bin < count)) throw new Error(`has no bin ${bin}: there are bins 0..${count - 1}.`);
        out.data[row * count + bin] += x.data[rowsX[row] + j];
      }
    }
    return out;
  },
  explain([x, index], _, place) {
    const [lead, bin] = [place.slice(0, -1), place[place.length - 1]];
    const [rowX, rowI] = [x, index].map(({ shape }) => aligned(lead, shape.slice(0, -1)));
    const asked = Array.from({ length: x.shape[x.shape.length - 1] }, (_, j) => cell(1, [...rowI, j]));
    const fallen = asked.flatMap(({ index: from }, j) => (Math.trunc(at(index, from)) === bin ? [[...rowX, j]] : []));
    if (!fallen.length) return { terms: terms`0`, value: 0, note: `no number is in bin ${bin}`, more: asked };
    const { terms: sum, more } = listing(
      fallen.map((from) => [cell(0, from)]),
      " + ",
    );
    const value = fallen.reduce((total, from) => total + at(x, from), 0);
    return { terms: sum, value, note: `numbers in bin ${bin}`, more: [...more, ...asked] };
  },
  formula: () => pieces`Σ ${symbol(0)} where ${symbol(1)} = bin`,
};

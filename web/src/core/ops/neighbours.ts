// neighbours: rows side by side, x [..., N, C] by index [M, K] to [..., M, K*C]; -1 is a row of zeros. A convolution is a matrix
// product with these rows. As in gather, an index loses its fraction, and one that is no row is refused.
import { at, zeros } from "../tensor";
import { cell, type Op, pieces, symbol, terms } from "./op";

export const neighbours: Op = {
  evaluate([x, index]) {
    const [rows, wide] = x.shape.slice(-2);
    const [places, near] = index.shape;
    const lead = x.shape.slice(0, -2);
    const out = zeros([...lead, places, near * wide]);
    const grids = lead.reduce((a, b) => a * b, 1);
    for (let grid = 0; grid < grids; grid++) {
      for (let slot = 0; slot < places * near; slot++) {
        const row = Math.trunc(index.data[slot]);
        if (!(row >= -1 && row < rows))
          throw new Error(`asks for row ${row} of rows 0..${rows - 1}. Use a picture of the same size.`);
        if (row < 0) continue;
        const from = (grid * rows + row) * wide;
        out.data.set(x.data.subarray(from, from + wide), (grid * places * near + slot) * wide);
      }
    }
    return out;
  },
  explain([x, index], _, place) {
    const [lead, [row, column]] = [place.slice(0, -2), place.slice(-2)];
    const wide = x.shape[x.shape.length - 1];
    const asked = [row, Math.floor(column / wide)];
    const from = Math.trunc(at(index, asked));
    if (from < 0) return { terms: terms`0`, value: 0, note: "beyond the edge", more: [cell(1, asked)] };
    const there = [...lead, from, column % wide];
    return { terms: [cell(0, there)], value: at(x, there), note: `row ${from}`, more: [cell(1, asked)] };
  },
  formula: () => pieces`${symbol(0)}[${symbol(1)}]`,
};

// gather: rows of a table [T, ...] by index [...]. As in torch's .long(), a broken index loses its fraction; unlike there, a
// negative one is an error: the table has no row for a position before its first.
import { at, size, zeros } from "../tensor";
import { cell, type Op, pieces, symbol } from "./op";

export const gather: Op = {
  evaluate([table, index]) {
    const width = size(table.shape.slice(1));
    const out = zeros([...index.shape, ...table.shape.slice(1)]);
    for (let i = 0; i < index.data.length; i++) {
      const row = Math.trunc(index.data[i]);
      if (!(row >= 0 && row < table.shape[0])) {
        throw new Error(
          `asks for row ${row} of a table with rows 0..${table.shape[0] - 1}. Use fewer words, or an earlier position, or a scheme without a table.`,
        );
      }
      out.data.set(table.data.subarray(row * width, (row + 1) * width), i * width);
    }
    return out;
  },
  explain([table, index], _, place) {
    const asked = place.slice(0, index.shape.length);
    const row = Math.trunc(at(index, asked));
    const from = [row, ...place.slice(index.shape.length)];
    return { terms: [cell(0, from)], value: at(table, from), note: `row ${row} of the table`, more: [cell(1, asked)] };
  },
  formula: () => pieces`${symbol(0)}[${symbol(1)}]`,
};

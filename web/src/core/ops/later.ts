// later: for each column of x [..., N, M] the sum over the columns whose position is not before its own; at [..., 1, M]. Of equal
// positions the later column's counts as the later one.
import { aligned, at, offset, spread, type Tensor, zeros } from "../tensor";
import { cell, listing, type Op, pieces, symbol } from "./op";

export const later: Op = {
  evaluate([x, places]) {
    const [out, width] = [zeros(x.shape), x.shape[x.shape.length - 1]];
    if (places.shape.at(-1) !== width) throw new Error(`${width} columns need one position each, but got ${places.shape.at(-1)}.`);
    const rows = spread(places.shape.slice(0, -1), x.shape.slice(0, -1), width);
    const orders = new Map<number, number[]>();
    rows.forEach((row, r) => {
      if (!orders.has(row)) orders.set(row, latestFirst(places, row, width));
      let sum = 0;
      for (const column of orders.get(row)!) out.data[r * width + column] = sum += x.data[r * width + column];
    });
    return out;
  },
  explain([x, places], _, index) {
    const [lead, width] = [index.slice(0, -1), x.shape[x.shape.length - 1]];
    const placed = aligned(lead, places.shape.slice(0, -1));
    const latest = latestFirst(places, offset(places.shape, [...placed, 0]), width);
    const counted = latest.slice(0, latest.indexOf(index[index.length - 1]) + 1).map((column) => [...lead, column]);
    const { terms, more } = listing(
      [...counted].reverse().map((from) => [cell(0, from)]),
      " + ",
    );
    const value = counted.reduce((sum, from) => sum + at(x, from), 0);
    const asked = latest.map((column) => cell(1, [...placed, column]));
    return { terms, value, note: "over the columns whose position is not before this one's", more: [...more, ...asked] };
  },
  formula: () => pieces`Σ${{ sub: [symbol(1), { text: " and later" }] }} ${symbol(0)}`,
};

/** The columns of a row of positions from the last to the first; of equal positions the later column comes first. */
function latestFirst(places: Tensor, row: number, width: number): number[] {
  const columns = Array.from({ length: width }, (_, column) => column);
  return columns.sort((a, b) => places.data[row + b] - places.data[row + a] || b - a);
}

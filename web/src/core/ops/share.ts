// share: each row divided by its sum; a row that sums to 0 stays as it is, so a row of zeros gives 0.
import { at, offset, type Tensor, zeros } from "../tensor";
import { cell, listing, type Op, pieces, symbol, terms } from "./op";

export const share: Op = {
  evaluate([x]) {
    const [out, width] = [zeros(x.shape), x.shape.at(-1) ?? 1];
    for (let start = 0; start < x.data.length; start += width) {
      const whole = total(x.data.subarray(start, start + width));
      for (let i = start; i < start + width; i++) out.data[i] = x.data[i] / whole;
    }
    return out;
  },
  explain([x], _, index) {
    const { places, numbers } = rowAt(x, index);
    const [mine, value] = [cell(0, index), at(x, index) / total(numbers)];
    if (sum(numbers) === 0) return { terms: [mine], value, note: "the row sums to 0: nothing to divide by", more: places };
    const { terms: whole, more } = listing(
      places.map((place) => [place]),
      " + ",
    );
    return { terms: terms`${mine} / (${whole})`, value, more };
  },
  formula: () => [{ frac: [[symbol(0)], pieces`Σ ${symbol(0)}`] }],
};

const sum = (row: Float64Array): number => row.reduce((sum, number) => sum + number, 0);
const total = (row: Float64Array): number => (sum(row) === 0 ? 1 : sum(row));

function rowAt(x: Tensor, index: number[]) {
  const [lead, width] = [index.slice(0, -1), x.shape.at(-1) ?? 1];
  const start = offset(x.shape, [...lead, 0]);
  return {
    places: Array.from({ length: width }, (_, j) => cell(0, [...lead, j])),
    numbers: x.data.subarray(start, start + width),
  };
}

// matmul: each number is a row of a times a column of b.
import { aligned, at, broadcast, size, spread, type Tensor, zeros } from "../tensor";
import { cell, listing, type Op, pieces, PRINTED, symbol, terms } from "./op";

export const matmul: Op = {
  evaluate([a, b]) {
    const { rows, inner, columns, lead } = shapes(a, b);
    const out = zeros(outputShape(a, b));
    const [fromA, fromB] = [spread(a.shape.slice(0, -2), lead, rows * inner), spread(b.shape.slice(0, -2), lead, inner * columns)];
    for (let m = 0; m < size(lead); m++)
      multiply(a.data, b.data, out.data, fromA[m], fromB[m], m * rows * columns, rows, inner, columns);
    return out;
  },
  explain([a, b], _, index) {
    const products = operands(a, b, index);
    const counts = ([i, j]: [number[], number[]]) => at(a, i) * at(b, j) !== 0;
    const few = products.length > PRINTED && products.some(counts) ? products.filter(counts) : products;
    const left = few === products ? [] : products.filter((product) => !counts(product));
    const { terms: printed, more } = listing(
      few.map(([i, j]) => terms`${cell(0, i)}·${cell(1, j)}`),
      " + ",
    );
    let value = 0;
    for (const [i, j] of products) value += at(a, i) * at(b, j);
    const note = left.length ? { note: "products that are 0 are left out" } : {};
    return { terms: printed, value, more: [...more, ...left.flatMap(([i, j]) => [cell(0, i), cell(1, j)])], ...note };
  },
  formula: () => pieces`${symbol(0)} ${symbol(1)}`,
};

/** A list is one row on the left and one column on the right, as in torch. */
function shapes(a: Tensor, b: Tensor) {
  const [rows, inner] = [a.shape.at(-2) ?? 1, a.shape[a.shape.length - 1]];
  const [below, columns] = b.shape.length > 1 ? b.shape.slice(-2) : [b.shape[0], 1];
  if (inner !== below)
    throw new Error(`Rows of ${inner} numbers cannot meet columns of ${below}: shapes [${a.shape}] and [${b.shape}].`);
  return { rows, inner, columns, lead: broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2)) };
}

function outputShape(a: Tensor, b: Tensor): number[] {
  const { rows, columns, lead } = shapes(a, b);
  return [...lead, ...(a.shape.length > 1 ? [rows] : []), ...(b.shape.length > 1 ? [columns] : [])];
}

/** The pairs of cells whose products make the cell at `index`. */
function operands(a: Tensor, b: Tensor, index: number[]): [number[], number[]][] {
  const { inner, lead } = shapes(a, b);
  const [before, after] = [index.slice(0, lead.length), index.slice(lead.length)];
  const [row, column] = [a.shape.length > 1 ? after.slice(0, 1) : [], b.shape.length > 1 ? after.slice(-1) : []];
  const [leadA, leadB] = [aligned(before, a.shape.slice(0, -2)), aligned(before, b.shape.slice(0, -2))];
  return Array.from({ length: inner }, (_, k) => [
    [...leadA, ...row, k],
    [...leadB, k, ...column],
  ]);
}

/** One matrix product, in the order of k; four rows of b at once, since storing costs as much as four products. */
function multiply(
  a: Float64Array,
  b: Float64Array,
  out: Float64Array,
  fromA: number,
  fromB: number,
  fromOut: number,
  rows: number,
  inner: number,
  columns: number,
): void {
  const quads = inner - (inner % 4);
  for (let i = 0; i < rows; i++) {
    const [rowA, row] = [fromA + i * inner, fromOut + i * columns];
    for (let k = 0; k < quads; k += 4) {
      const a0 = a[rowA + k],
        a1 = a[rowA + k + 1],
        a2 = a[rowA + k + 2],
        a3 = a[rowA + k + 3];
      const b0 = fromB + k * columns,
        b1 = b0 + columns,
        b2 = b1 + columns,
        b3 = b2 + columns;
      for (let j = 0; j < columns; j++) {
        out[row + j] = out[row + j] + a0 * b[b0 + j] + a1 * b[b1 + j] + a2 * b[b2 + j] + a3 * b[b3 + j];
      }
    }
    for (let k = quads; k < inner; k++) {
      const one = a[rowA + k],
        rowB = fromB + k * columns;
      for (let j = 0; j < columns; j++) out[row + j] += one * b[rowB + j];
    }
  }
}

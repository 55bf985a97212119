// Rounded numbers of a compact file: weights as letters on a logarithmic scale, vectors as bytes with a step for each row.
// See record/rounded.py, which wrote them.
import type { Array as ArrayRecord, AttentionTensors } from "../../core/contract";
import { digits } from "../../core/format";
import { part } from "../../core/tensor";

const [OCTAVE, LEAST, FIRST, SKIPPED] = [3, 90, 35, 92]; // letters an octave; the level of no weight; codes
const level = (code: number): number => code - FIRST - (code > SKIPPED ? 1 : 0);
const WEIGHTS = Float64Array.from({ length: 128 }, (_, code) => (level(code) >= LEAST ? 0 : 2 ** (-level(code) / OCTAVE)));

/** How many weights of row n are written: all, or with a causal mask those up to its own position. */
const wide = (n: number, { causal, rows, columns }: AttentionTensors): number =>
  causal ? Math.max(0, Math.min(columns!, n + 1 + columns! - rows!)) : columns!;

/** Weights [N, M] of a head. */
export function decodeWeights(numbers: AttentionTensors, head: number): Float64Array {
  const [text, rows, columns] = [numbers.encoded_weights![head], numbers.rows!, numbers.columns!];
  const found = new Float64Array(rows * columns);
  for (let n = 0, at = 0; n < rows; n++)
    for (let m = 0, end = wide(n, numbers); m < end; m++) found[n * columns + m] = WEIGHTS[text.charCodeAt(at++)];
  return found;
}

/** [side, side] of 255 · √(largest weight) in each cell, as Python makes thumbnails. */
export function thumbnail(numbers: AttentionTensors, head: number, side: number): Uint8Array {
  const [text, rows, columns] = [numbers.encoded_weights![head], numbers.rows!, numbers.columns!];
  const codes = new Uint8Array(side * side).fill(127); // the smallest code is the largest weight
  const first = Int32Array.from({ length: columns }, (_, m) => Math.floor((m * side) / columns));
  const last = Int32Array.from({ length: columns }, (_, m) => Math.ceil(((m + 1) * side) / columns) - 1);
  for (let n = 0, at = 0; n < rows; n++) {
    const [above, below] = [Math.floor((n * side) / rows), Math.ceil(((n + 1) * side) / rows) - 1];
    for (let m = 0, end = wide(n, numbers); m < end; m++) {
      const code = text.charCodeAt(at++);
      for (let row = above * side, stop = below * side; row <= stop; row += side) {
        if (code < codes[row + first[m]]) codes[row + first[m]] = code;
        if (last[m] !== first[m] && code < codes[row + last[m]]) codes[row + last[m]] = code;
      }
    }
  }
  return codes.map((code) => Math.round(255 * Math.sqrt(WEIGHTS[code])));
}

/** Rows of integers times the step of each row. */
export function dequantized(rows: Float64Array, step: ArrayRecord, group: number): Float64Array {
  const count = step.shape[1];
  const units = part(step, group * count, (group + 1) * count);
  const width = rows.length / count;
  return rows.map((value, at) => value * units[Math.floor(at / width)]);
}

/** A relative error in per cent, rounded up: "13 %". */
export function percent(about: number): string {
  const scale = 10 ** (1 - Math.floor(Math.log10(100 * about))); // two digits
  return `${Number((Math.ceil(100 * about * scale * (1 - 1e-9)) / scale).toPrecision(2))} %`;
}

/** A weight with its significant digits: "≈ 0.123" where it is rounded. */
export function formatWeight(weight: number, about: number): string {
  if (!about) return digits(weight);
  return weight === 0 ? "≈ 0" : `≈ ${digits(Number(weight.toPrecision(about > 0.03 ? 3 : 4)))}`;
}

// Tensors: row-major blocks of float64 numbers. Booleans are 0 and 1, integers are numbers. Nobody writes into `data` after
// it is made, so tensors of another shape may share it, and "the same object" means "nothing changed".
import type { Array as ArrayRecord } from "./contract";

export interface Tensor {
  readonly shape: number[];
  readonly data: Float64Array;
}

export type Nested = number | boolean | Nested[];

export const size = (shape: number[]): number => shape.reduce((product, length) => product * length, 1);

/** Numbers with a shape. Throws where they do not fill it. */
export function tensor(shape: number[], numbers: ArrayLike<number>): Tensor {
  if (numbers.length !== size(shape)) {
    throw new Error(`An array of shape [${shape}] holds ${size(shape)} numbers, found ${numbers.length}.`);
  }
  return { shape, data: numbers instanceof Float64Array ? numbers : Float64Array.from(numbers) };
}

export const zeros = (shape: number[]): Tensor => ({ shape, data: new Float64Array(size(shape)) });

/** Nested lists as a tensor: of([[1, 2], [0, 2]]). */
export function of(nested: Nested): Tensor {
  const shape: number[] = [];
  for (let level: Nested = nested; Array.isArray(level); level = level[0]) shape.push(level.length);
  return tensor(shape, flat(nested));
}

const flat = (nested: Nested): number[] => (Array.isArray(nested) ? nested.flatMap(flat) : [Number(nested)]);

/** The same numbers in another shape. */
export const reshape = (x: Tensor, shape: number[]): Tensor => tensor(shape, x.data);

// --- records -----------------------------------------------------------------------------------------------------------
const WIDTH = { float64: 8, float32: 4, float16: 2, int64: 8, int8: 1, bool: 1 };

/** The numbers of a record. Throws where the data do not fill the shape. */
export function unpack(array: ArrayRecord): Tensor {
  return tensor(array.shape, typeof array.data === "string" ? decode(array.data, array.dtype) : array.data);
}

/** Numbers from index `begin` to index `end`, row by row, without reading the others. */
export function part(array: ArrayRecord, begin: number, end: number): Float64Array {
  if (typeof array.data !== "string") return Float64Array.from(array.data.slice(begin, end));
  const [from, to] = [begin, end].map((place) => place * WIDTH[array.dtype]);
  const first = Math.floor(from / 3); // three bytes are four letters
  const bytes = bytesOf(array.data.slice(4 * first, 4 * Math.ceil(to / 3)));
  return numbersOf(bytes.subarray(from - 3 * first, to - 3 * first), array.dtype);
}

const decode = (text: string, dtype: ArrayRecord["dtype"]): Float64Array => numbersOf(bytesOf(text), dtype);

/** Decodes base64. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const quick = Uint8Array as unknown as { fromBase64?(text: string): Uint8Array<ArrayBuffer> }; // browsers of 2025
  if (quick.fromBase64) return quick.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

function numbersOf(bytes: Uint8Array, dtype: ArrayRecord["dtype"]): Float64Array {
  const width = WIDTH[dtype];
  if (bytes.length % width) throw new Error(`Numbers of dtype ${dtype} take ${width} bytes each, found ${bytes.length} bytes.`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = {
    float64: (at: number) => view.getFloat64(at, true),
    float32: (at: number) => view.getFloat32(at, true),
    float16: (at: number) => half(view.getUint16(at, true)),
    int64: (at: number) => Number(view.getBigInt64(at, true)),
    int8: (at: number) => view.getInt8(at),
    bool: (at: number) => view.getUint8(at),
  }[dtype];
  const numbers = new Float64Array(bytes.length / width);
  for (let i = 0; i < numbers.length; i++) numbers[i] = read(i * width);
  return numbers;
}

/** A number of 16 bits: sign, five bits of exponent, ten of fraction (IEEE 754 binary16). */
function half(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size =
    exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

// --- one number --------------------------------------------------------------------------------------------------------
/** How far apart neighbours along each axis lie. */
export function strides(shape: number[]): number[] {
  const steps = new Array<number>(shape.length);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]) steps[axis] = step;
  return steps;
}

export function offset(shape: number[], index: number[]): number {
  let place = 0;
  for (let axis = 0; axis < shape.length; axis++) place = place * shape[axis] + index[axis];
  return place;
}

/** The index of the number at an offset: the inverse of `offset`. */
export function indexAt(shape: number[], place: number): number[] {
  const index = new Array<number>(shape.length);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index[axis] = place % shape[axis];
    place = Math.floor(place / shape[axis]);
  }
  return index;
}

export const at = (x: Tensor, index: number[]): number => x.data[offset(x.shape, index)];

/** The same tensor but for one number. */
export function edited(x: Tensor, index: number[], value: number): Tensor {
  const data = x.data.slice();
  data[offset(x.shape, index)] = value;
  return { shape: x.shape, data };
}

/** The same tensor but for some numbers, by cell ("1,0"); a cell that it does not have is passed over. */
export function changed(given: Tensor, cells: Record<string, number> | undefined): Tensor {
  let value = given;
  for (const [cell, number] of Object.entries(cells ?? {})) {
    const index = cell === "" ? [] : cell.split(",").map(Number);
    if (index.length === given.shape.length && index.every((i, axis) => i < given.shape[axis]))
      value = edited(value, index, number);
  }
  return value;
}

// --- one matrix --------------------------------------------------------------------------------------------------------
/** The matrix at given leading indices, sharing the numbers; a list is one row, a single number 1 by 1. */
export function matrixAt(x: Tensor, lead: number[] = []): Tensor {
  const [rows, columns] = [x.shape.at(-2) ?? 1, x.shape.at(-1) ?? 1];
  const start = offset(x.shape.slice(0, -2), lead) * rows * columns;
  return { shape: [rows, columns], data: x.data.subarray(start, start + rows * columns) };
}

// --- broadcasting, right-aligned as in torch ---------------------------------------------------------------------------
export function broadcast(a: number[], b: number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const [m, n] = [a[i - rank + a.length] ?? 1, b[i - rank + b.length] ?? 1];
    if (m !== n && m !== 1 && n !== 1) throw new Error(`Shapes [${a}] and [${b}] do not fit: ${m} against ${n}.`);
    return m === 1 ? n : m;
  });
}

/** Where a cell of a broadcast result lies in an input of this shape. */
export function aligned(index: number[], shape: number[]): number[] {
  const skipped = index.length - shape.length;
  return shape.map((length, axis) => (length === 1 ? 0 : index[axis + skipped]));
}

/** For each cell of `target`, its offset in a tensor of `shape` that is broadcast to it, in units of `unit` numbers. */
export function spread(shape: number[], target: number[], unit = 1): Int32Array {
  const places = new Int32Array(size(target));
  const own = strides(shape);
  const skipped = target.length - shape.length;
  const steps = target.map((_, axis) => (axis < skipped || shape[axis - skipped] === 1 ? 0 : own[axis - skipped] * unit));
  const index = new Int32Array(target.length);
  for (let cell = 0, place = 0; cell < places.length; cell++) {
    places[cell] = place;
    for (let axis = target.length - 1; axis >= 0; axis--) {
      place += steps[axis];
      if (++index[axis] < target[axis]) break;
      place -= steps[axis] * target[axis];
      index[axis] = 0;
    }
  }
  return places;
}

export function map(x: Tensor, f: (value: number) => number): Tensor {
  const out = zeros(x.shape);
  for (let i = 0; i < out.data.length; i++) out.data[i] = f(x.data[i]);
  return out;
}

/** f of each pair of numbers, broadcast. */
export function zip(a: Tensor, b: Tensor, f: (a: number, b: number) => number): Tensor {
  const out = zeros(broadcast(a.shape, b.shape));
  const [wideA, wideB, wide] = [a, b, out].map((x) => x.shape.at(-1) ?? 1);
  const lead = out.shape.slice(0, -1);
  const rowsA = spread(a.shape.slice(0, -1), lead, wideA);
  const rowsB = spread(b.shape.slice(0, -1), lead, wideB);
  const [stepA, stepB] = [wideA === 1 ? 0 : 1, wideB === 1 ? 0 : 1];
  for (let row = 0, cell = 0; row < rowsA.length; row++) {
    for (let i = rowsA[row], j = rowsB[row], end = cell + wide; cell < end; i += stepA, j += stepB) {
      out.data[cell++] = f(a.data[i], b.data[j]);
    }
  }
  return out;
}

/** The axes in another order: order[i] is the old axis that becomes axis i. */
export function reorder(x: Tensor, order: number[]): Tensor {
  const own = strides(x.shape);
  const out = zeros(order.map((axis) => x.shape[axis]));
  const rank = order.length;
  const [wide, step] = [out.shape[rank - 1], own[order[rank - 1]]];
  const steps = order.map((axis) => own[axis]);
  const index = new Int32Array(rank);
  for (let cell = 0, place = 0; cell < out.data.length;) {
    for (let i = 0, from = place; i < wide; i++, from += step) out.data[cell++] = x.data[from];
    for (let axis = rank - 2; axis >= 0; axis--) {
      place += steps[axis];
      if (++index[axis] < out.shape[axis]) break;
      place -= steps[axis] * out.shape[axis];
      index[axis] = 0;
    }
  }
  return out;
}

/** Swaps the last two axes, or others counted from the end. */
export function swapped(x: Tensor, a = -2, b = -1): Tensor {
  const order = x.shape.map((_, axis) => axis);
  const [first, second] = [order.length + a, order.length + b];
  [order[first], order[second]] = [second, first];
  return reorder(x, order);
}

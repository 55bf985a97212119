// Boxes of pixels: a picture is a film of one frame, a patch a tubelet of one frame. The order of their numbers.
import { bytesOf } from "../../core/tensor";

export type Size = [number, number, number]; // frames, rows, columns
export const COLOURS = ["red", "green", "blue"];

/** A film, or a picture as a film of one frame. */
export class Pixels {
  private readonly bytes: Uint8Array;
  constructor(
    readonly size: Size,
    data: string,
  ) {
    this.bytes = bytesOf(data);
    const wanted = size[0] * size[1] * size[2] * 3;
    if (this.bytes.length !== wanted)
      throw new Error(`Pixels of ${size.join("×")} take ${wanted} bytes, found ${this.bytes.length}.`);
  }

  /** A byte: frame, row, column, colour. */
  byte(f: number, y: number, x: number, c: number): number {
    return this.bytes[((f * this.size[1] + y) * this.size[2] + x) * 3 + c];
  }

  /** One frame as an image of a canvas. */
  image(f: number): ImageData {
    const [, rows, columns] = this.size;
    const image = new ImageData(columns, rows);
    for (let i = 0, from = f * rows * columns * 3; i < rows * columns; i++, from += 3)
      image.data.set([this.bytes[from], this.bytes[from + 1], this.bytes[from + 2], 255], 4 * i);
    return image;
  }
}

/** The channel, frame, row and column of a token's number, which are ordered that way. */
export interface Place {
  c: number;
  f: number;
  y: number;
  x: number;
}

export const numberAt = ([t, h, w]: Size, { c, f, y, x }: Place): number => ((c * t + f) * h + y) * w + x;

export function placeOf([t, h, w]: Size, i: number): Place {
  const [x, row] = [i % w, Math.floor(i / w)];
  const [y, sheet] = [row % h, Math.floor(row / h)];
  return { c: Math.floor(sheet / t), f: sheet % t, y, x };
}

/** The grid cell of a token: time, row, column. */
export const cellOf = ([, rows, columns]: Size, token: number): Size => [
  Math.floor(token / (rows * columns)),
  Math.floor(token / columns) % rows,
  token % columns,
];

export const tokenOf = ([, rows, columns]: Size, [a, r, s]: Size): number => (a * rows + r) * columns + s;

/** The numbers of a token whose box begins at a frame, row and column, as in training: bytes / 255. */
export function numbersOf(pixels: Pixels, size: Size, [a, r, s]: Size): Float64Array {
  const values = new Float64Array(3 * size[0] * size[1] * size[2]);
  for (let i = 0; i < values.length; i++) {
    const { c, f, y, x } = placeOf(size, i);
    values[i] = pixels.byte(a + f, r + y, s + x, c) / 255;
  }
  return values;
}

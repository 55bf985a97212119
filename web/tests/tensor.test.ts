import { expect, test } from "vitest";
import {
  aligned,
  at,
  broadcast,
  indexAt,
  matrixAt,
  of,
  offset,
  part,
  spread,
  swapped,
  tensor,
  unpack,
  zip,
} from "../src/core/tensor";

const base64 = (bytes: ArrayBufferLike): string => Buffer.from(bytes).toString("base64");

test("numbers and bytes of every dtype are read alike", () => {
  expect(unpack({ shape: [2], dtype: "int64", data: [1, -2] })).toEqual(of([1, -2]));
  expect(unpack({ shape: [2], dtype: "float64", data: base64(Float64Array.of(1.5, -Infinity).buffer) })).toEqual(
    of([1.5, -Infinity]),
  );
  expect(unpack({ shape: [2], dtype: "float32", data: base64(Float32Array.of(0.25, 3).buffer) })).toEqual(of([0.25, 3]));
  expect(unpack({ shape: [2], dtype: "int64", data: base64(BigInt64Array.of(-3n, 5n).buffer) })).toEqual(of([-3, 5]));
  expect(unpack({ shape: [3], dtype: "bool", data: base64(Uint8Array.of(1, 0, 1).buffer) })).toEqual(of([true, false, true]));
  expect(unpack({ shape: [], dtype: "float64", data: [7] })).toEqual(of(7));
});

test("numbers of 16 bits are those of IEEE 754", () => {
  const bits = Uint16Array.of(0x3c00, 0xc000, 0x3555, 0x0001, 0x8000, 0x7bff, 0x7c00, 0xfc00, 0x03ff);
  const wanted = [1, -2, 0.333251953125, 2 ** -24, -0, 65504, Infinity, -Infinity, 1023 * 2 ** -24];
  expect([...unpack({ shape: [9], dtype: "float16", data: base64(bits.buffer) }).data]).toEqual(wanted);
  expect(unpack({ shape: [1], dtype: "float16", data: base64(Uint16Array.of(0x7e00).buffer) }).data[0]).toBeNaN();
});

test("a part is read without the rest, wherever it begins", () => {
  const numbers = Float32Array.from({ length: 11 }, (_, i) => i / 4);
  const written = { shape: [11], dtype: "float32" as const, data: base64(numbers.buffer) };
  for (let begin = 0; begin < 11; begin++)
    for (let end = begin; end <= 11; end++) expect([...part(written, begin, end)]).toEqual([...numbers.slice(begin, end)]);
  expect([...part({ shape: [4], dtype: "int64", data: [1, 2, 3, 4] }, 1, 3)]).toEqual([2, 3]);
});

test("data that do not fill the shape are refused", () => {
  expect(() => unpack({ shape: [2, 2], dtype: "float64", data: [1, 2, 3] })).toThrow(
    "An array of shape [2,2] holds 4 numbers, found 3.",
  );
  expect(() => unpack({ shape: [1], dtype: "float64", data: base64(Uint8Array.of(1, 2, 3).buffer) })).toThrow(
    "8 bytes each, found 3",
  );
});

test("an index and its offset are one another's inverse", () => {
  for (let place = 0; place < 24; place++) expect(offset([2, 3, 4], indexAt([2, 3, 4], place))).toBe(place);
});

test("broadcasting aligns shapes on the right", () => {
  expect(broadcast([2, 1, 3], [4, 1])).toEqual([2, 4, 3]);
  expect(aligned([1, 3, 2], [4, 1])).toEqual([3, 0]);
  expect([...spread([2, 1], [2, 2, 2])]).toEqual([0, 0, 1, 1, 0, 0, 1, 1]);
  expect(zip(of([[1], [2]]), of([10, 20]), (a, b) => a + b)).toEqual(
    of([
      [11, 21],
      [12, 22],
    ]),
  );
  expect(() => broadcast([2, 3], [2])).toThrow("Shapes [2,3] and [2] do not fit: 3 against 2.");
});

test("a matrix is read at its leading indices", () => {
  const x = tensor(
    [2, 2, 3],
    Float64Array.from({ length: 12 }, (_, i) => i),
  );
  expect(matrixAt(x, [1])).toEqual(
    of([
      [6, 7, 8],
      [9, 10, 11],
    ]),
  );
  expect(matrixAt(of([1, 2]))).toEqual(of([[1, 2]]));
  expect(at(swapped(x, -3, -2), [1, 0, 2])).toBe(at(x, [0, 1, 2]));
});

// Products of matrices: a sum of products in which one axis is summed, one belongs to the left alone and one to the right alone.
import { byLength, rows } from "./loops";
import type { Placed } from "./plan";

const FEW = 4; // numbers below which tiles do not pay

/** The same as the loop of `dot`, in tiles of four by four that stay in registers; nothing where there is no such matrix. */
export function product(heap: Float64Array, { shape, to, of: [left, right] }: Placed): (() => void) | undefined {
  const axes = byLength(shape);
  const [so, sa, sb] = [to, left, right].map((view) => view.strides);
  const k = axes.find((axis) => !so[axis]);
  const i = axes.find((axis) => so[axis] && sa[axis] && !sb[axis]);
  const j = axes.find((axis) => so[axis] && sb[axis] && !sa[axis]);
  if (k === undefined || (i === undefined && j === undefined) || shape[k] < FEW) return undefined;
  const others = axes.filter((axis) => axis !== i && axis !== j && axis !== k);
  const [O, A, B] = [to, left, right].map((view) => rows(view, shape, others));
  const [I, J, K] = [i, j, k].map((axis) => (axis === undefined ? 1 : shape[axis]));
  const at = (strides: number[], axis: number | undefined) => (axis === undefined ? 0 : strides[axis]);
  const [oi, oj, ai, ak, bj, bk] = [at(so, i), at(so, j), at(sa, i), sa[k], at(sb, j), sb[k]];
  return () => {
    for (let row = 0; row < O.length; row++) multiply(heap, I, J, K, O[row], oi, oj, A[row], ai, ak, B[row], bj, bk);
  };
}

type Multiply = (
  h: Float64Array,
  I: number,
  J: number,
  K: number,
  o: number,
  oi: number,
  oj: number,
  a: number,
  ai: number,
  ak: number,
  b: number,
  bj: number,
  bk: number,
) => void;

/** out[i, j] += the sum over k of a[i, k] b[k, j]. Numbers are named one by one: lists of them, taken apart, cost three times as much. */
const multiply: Multiply = (h, I, J, K, o, oi, oj, a, ai, ak, b, bj, bk) => {
  const [tall, wide] = [I - (I % 4), J - (J % 4)];
  for (let i = 0; i < tall; i += 4) {
    for (let j = 0; j < wide; j += 4) tile(h, K, o + i * oi + j * oj, oi, oj, a + i * ai, ai, ak, b + j * bj, bj, bk);
    for (let j = wide; j < J; j++) four(h, K, o + i * oi + j * oj, oi, b + j * bj, bk, a + i * ai, ai, ak);
  }
  for (let i = tall; i < I; i++) {
    for (let j = 0; j < wide; j += 4) four(h, K, o + i * oi + j * oj, oj, a + i * ai, ak, b + j * bj, bj, bk);
    for (let j = wide; j < J; j++) line(h, K, o + i * oi + j * oj, a + i * ai, ak, b + j * bj, bk);
  }
};

function line(h: Float64Array, K: number, o: number, a: number, ak: number, b: number, bk: number): void {
  let sum = 0;
  for (let k = 0; k < K; k++, a += ak, b += bk) sum += h[a] * h[b];
  h[o] += sum;
}

/** One line with four. */
function four(h: Float64Array, K: number, o: number, oj: number, a: number, ak: number, b: number, bj: number, bk: number): void {
  let p = 0,
    q = 0,
    r = 0,
    s = 0;
  for (let k = 0; k < K; k++, a += ak, b += bk) {
    const x = h[a];
    p += x * h[b];
    q += x * h[b + bj];
    r += x * h[b + 2 * bj];
    s += x * h[b + 3 * bj];
  }
  h[o] += p;
  h[o + oj] += q;
  h[o + 2 * oj] += r;
  h[o + 3 * oj] += s;
}

/** Four lines with four. */
function tile(
  h: Float64Array,
  K: number,
  o: number,
  oi: number,
  oj: number,
  a: number,
  ai: number,
  ak: number,
  b: number,
  bj: number,
  bk: number,
): void {
  let p0 = 0,
    p1 = 0,
    p2 = 0,
    p3 = 0,
    q0 = 0,
    q1 = 0,
    q2 = 0,
    q3 = 0;
  let r0 = 0,
    r1 = 0,
    r2 = 0,
    r3 = 0,
    s0 = 0,
    s1 = 0,
    s2 = 0,
    s3 = 0;
  for (let k = 0; k < K; k++, a += ak, b += bk) {
    const c = h[b],
      d = h[b + bj],
      e = h[b + 2 * bj],
      f = h[b + 3 * bj];
    let x = h[a];
    ((p0 += x * c), (p1 += x * d), (p2 += x * e), (p3 += x * f));
    x = h[a + ai];
    ((q0 += x * c), (q1 += x * d), (q2 += x * e), (q3 += x * f));
    x = h[a + 2 * ai];
    ((r0 += x * c), (r1 += x * d), (r2 += x * e), (r3 += x * f));
    x = h[a + 3 * ai];
    ((s0 += x * c), (s1 += x * d), (s2 += x * e), (s3 += x * f));
  }
  ((h[o] += p0), (h[o + oj] += p1), (h[o + 2 * oj] += p2), (h[o + 3 * oj] += p3));
  o += oi;
  ((h[o] += q0), (h[o + oj] += q1), (h[o + 2 * oj] += q2), (h[o + 3 * oj] += q3));
  o += oi;
  ((h[o] += r0), (h[o + oj] += r1), (h[o + 2 * oj] += r2), (h[o + 3 * oj] += r3));
  o += oi;
  ((h[o] += s0), (h[o + oj] += s1), (h[o + 2 * oj] += s2), (h[o + 3 * oj] += s3));
}

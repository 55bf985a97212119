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

/** out[i, j] += the sum over k of a[i, k] b[k, j]. */
const multiply: Multiply = (h, I, J, K, o, oi, oj, a, ai, ak, b, bj, bk) => {
  const [wide, tall] = [J - (J % 4), I - (I % 2)];
  for (let i = 0; i < tall; i += 2) {
    for (let j = 0; j < wide; j += 4) tile(h, K, o + i * oi + j * oj, oi, oj, a + i * ai, ai, ak, b + j * bj, bj, bk);
    for (let j = wide; j < J; j++) {
      line(h, K, o + i * oi + j * oj, a + i * ai, ak, b + j * bj, bk);
      line(h, K, o + (i + 1) * oi + j * oj, a + (i + 1) * ai, ak, b + j * bj, bk);
    }
  }
  if (tall === I) return;
  for (let j = 0; j < wide; j += 4) four(h, K, o + tall * oi + j * oj, oj, a + tall * ai, ak, b + j * bj, bj, bk);
  for (let j = wide; j < J; j++) line(h, K, o + tall * oi + j * oj, a + tall * ai, ak, b + j * bj, bk);
};

function line(h: Float64Array, K: number, o: number, a: number, ak: number, b: number, bk: number): void {
  let sum = 0;
  for (let k = 0; k < K; k++, a += ak, b += bk) sum += h[a] * h[b];
  h[o] += sum;
}

function four(h: Float64Array, K: number, o: number, oj: number, a: number, ak: number, b: number, bj: number, bk: number): void {
  let [p, q, r, s] = [0, 0, 0, 0];
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
  let [p, q, r, s, t, u, v, w] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let k = 0; k < K; k++, a += ak, b += bk) {
    const [x, y] = [h[a], h[a + ai]];
    const [c, d, e, f] = [h[b], h[b + bj], h[b + 2 * bj], h[b + 3 * bj]];
    p += x * c;
    q += x * d;
    r += x * e;
    s += x * f;
    t += y * c;
    u += y * d;
    v += y * e;
    w += y * f;
  }
  h[o] += p;
  h[o + oj] += q;
  h[o + 2 * oj] += r;
  h[o + 3 * oj] += s;
  h[o + oi] += t;
  h[o + oi + oj] += u;
  h[o + oi + 2 * oj] += v;
  h[o + oi + 3 * oj] += w;
}

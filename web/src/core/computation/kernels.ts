// The inner loops: n numbers from o on, `so` apart, made from those at a, b and c. One function for each operation, spelled out, so
// that a browser compiles each by itself.
import { erf } from "../ops/erf";

export type Kernel = (
  h: Float64Array,
  n: number,
  o: number,
  so: number,
  a: number,
  sa: number,
  b: number,
  sb: number,
  c: number,
  sc: number,
) => void;

/** What an operation that joins numbers begins with. */
export const BEGINS: Readonly<Record<string, number>> = { sum: 0, dot: 0, prod: 1, amax: -Infinity, amin: Infinity };

export const KERNELS: Readonly<Record<string, Kernel>> = {
  copy: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = h[a];
  },
  neg: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = -h[a];
  },
  abs: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.abs(h[a]);
  },
  sign: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.sign(h[a]);
  },
  ceil: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.ceil(h[a]);
  },
  floor: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.floor(h[a]);
  },
  trunc: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.trunc(h[a]);
  },
  exp: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.exp(h[a]);
  },
  expm1: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.expm1(h[a]);
  },
  log: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.log(h[a]);
  },
  log1p: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.log1p(h[a]);
  },
  sqrt: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.sqrt(h[a]);
  },
  rsqrt: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = 1 / Math.sqrt(h[a]);
  },
  sin: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.sin(h[a]);
  },
  cos: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.cos(h[a]);
  },
  tan: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.tan(h[a]);
  },
  tanh: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.tanh(h[a]);
  },
  erf: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = erf(h[a]);
  },
  sigmoid: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = 1 / (1 + Math.exp(-h[a]));
  },
  not: (h, n, o, so, a, sa) => {
    for (let i = 0; i < n; i++, o += so, a += sa) h[o] = h[a] ? 0 : 1;
  },
  add: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] + h[b];
  },
  sub: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] - h[b];
  },
  mul: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] * h[b];
  },
  div: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] / h[b];
  },
  pow: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] ** h[b];
  },
  atan2: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = Math.atan2(h[a], h[b]);
  },
  fmod: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] % h[b];
  },
  maximum: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = Math.max(h[a], h[b]);
  },
  minimum: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = Math.min(h[a], h[b]);
  },
  eq: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] === h[b] ? 1 : 0;
  },
  ne: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] !== h[b] ? 1 : 0;
  },
  lt: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] < h[b] ? 1 : 0;
  },
  le: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] <= h[b] ? 1 : 0;
  },
  gt: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] > h[b] ? 1 : 0;
  },
  ge: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] >= h[b] ? 1 : 0;
  },
  and: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] && h[b] ? 1 : 0;
  },
  or: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a] || h[b] ? 1 : 0;
  },
  gather: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[a + h[b]];
  },
  where: (h, n, o, so, a, sa, b, sb, c, sc) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb, c += sc) h[o] = h[a] ? h[b] : h[c];
  },
  put: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o + h[b]] = h[a];
  },
  scatter: (h, n, o, so, a, sa, b, sb) => {
    for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o + h[b]] += h[a];
  },
  sum: (h, n, o, so, a, sa) => {
    if (so) {
      for (let i = 0; i < n; i++, o += so, a += sa) h[o] = h[o] + h[a];
      return;
    }
    let found = h[o];
    for (let i = 0; i < n; i++, a += sa) found = found + h[a];
    h[o] = found;
  },
  prod: (h, n, o, so, a, sa) => {
    if (so) {
      for (let i = 0; i < n; i++, o += so, a += sa) h[o] = h[o] * h[a];
      return;
    }
    let found = h[o];
    for (let i = 0; i < n; i++, a += sa) found = found * h[a];
    h[o] = found;
  },
  amax: (h, n, o, so, a, sa) => {
    if (so) {
      for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.max(h[o], h[a]);
      return;
    }
    let found = h[o];
    for (let i = 0; i < n; i++, a += sa) found = Math.max(found, h[a]);
    h[o] = found;
  },
  amin: (h, n, o, so, a, sa) => {
    if (so) {
      for (let i = 0; i < n; i++, o += so, a += sa) h[o] = Math.min(h[o], h[a]);
      return;
    }
    let found = h[o];
    for (let i = 0; i < n; i++, a += sa) found = Math.min(found, h[a]);
    h[o] = found;
  },
  dot: (h, n, o, so, a, sa, b, sb) => {
    if (so) {
      for (let i = 0; i < n; i++, o += so, a += sa, b += sb) h[o] = h[o] + h[a] * h[b];
      return;
    }
    let found = h[o];
    for (let i = 0; i < n; i++, a += sa, b += sb) found = found + h[a] * h[b];
    h[o] = found;
  },
};

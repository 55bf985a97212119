// The error function in double precision: JavaScript has none, and the exact GELU needs one.
// Source: Abramowitz & Stegun 1964, 7.1.6 (a series without cancellation) and 7.1.14 (a continued fraction for the tail).

export function erf(x: number): number {
  const size = Math.abs(x);
  if (!(size < 6)) return Number.isNaN(x) ? x : Math.sign(x); // beyond 6, 1 - erf is below 3e-17
  return size < 2.5 ? series(x) : Math.sign(x) * (1 - tail(size));
}

function series(x: number): number {
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * x * x) / (2 * n + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const LEVELS = 40; // from x = 2.5 on, enough for 1e-16

function tail(x: number): number {
  let below = x;
  for (let n = LEVELS; n > 0; n--) below = x + n / 2 / below;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / below;
}

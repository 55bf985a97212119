// Axes: where a number stands, and which numbers are named.
export interface Axis {
  place(value: number): number; // in pixels
  ticks: number[];
  text(value: number): string;
}

/** From the numbers [low, high] to the pixels [from, to]; `few` is how many ticks fit. */
export function axis([low, high]: [number, number], [from, to]: [number, number], few: number, log = false): Axis {
  const bent = log ? Math.log10 : (v: number) => v;
  const [a, b] = [bent(low), bent(high)];
  const ticks = log ? logTicks(low, high, few) : linearTicks(low, high, few);
  const gap = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(high - low);
  const most = Math.max(gap, ...ticks.map(Math.abs));
  return {
    place: (value) => from + ((bent(value) - a) / (b - a || 1)) * (to - from),
    ticks,
    text: (value) => (log ? short(value) : ticked(value, gap, most)),
  };
}

/** Round numbers, at most about `few`. */
export function linearTicks(low: number, high: number, few: number): number[] {
  const wide = high - low;
  if (!(wide > 0) || !Number.isFinite(wide)) return Number.isFinite(low) ? [low] : [];
  const rough = wide / Math.max(few, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough * (1 - 1e-9)) ?? rough;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, i) => (first + i) * step);
}

/** Powers of ten; where they are few, 2 and 5 times them; where even these are few, round numbers. */
export function logTicks(low: number, high: number, few: number): number[] {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  for (const digits of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5], [1, 2, 5], [1]]) {
    const found: number[] = [];
    for (let power = first; power <= last; power++)
      for (const digit of digits) {
        const value = digit * 10 ** power;
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push(value);
      }
    if (found.length <= few && found.length > 2) return found;
    if (digits.length === 9 && found.length <= 2) return linearTicks(low, high, few).filter((value) => value > 0);
  }
  const powers = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  const stride = Math.ceil(powers.length / few);
  return powers.filter((value, i) => i % stride === 0 && value >= low && value <= high);
}

/** A tick's number with as many decimals as tell it from its neighbours; very small and large ones in short, all or none. */
function ticked(value: number, gap: number, most: number): string {
  if (most >= 1e4 || most < 1e-3) return short(value);
  return minus(value.toFixed(Math.min(Math.max(0, -Math.floor(Math.log10(gap) + 1e-9)), 8)));
}

/** 12k, 3M, 3e-4: a number on an axis. */
export function short(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9) return minus(`${trimmed(value / 1e9)}G`);
  if (size >= 1e6) return minus(`${trimmed(value / 1e6)}M`);
  if (size >= 1e4) return minus(`${trimmed(value / 1e3)}k`);
  if (size < 1e-3) return minus(value.toExponential(1).replace(".0e", "e"));
  return minus(trimmed(value));
}

const trimmed = (value: number): string => String(Number(value.toPrecision(4)));
const minus = (text: string): string => text.replace(/^-/, "−");

/** As many digits as a float32 has: what the record says, rounded for the eye only. */
export function digits(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const rounded = Number(value.toPrecision(7));
  return minus(rounded !== 0 && Math.abs(rounded) < 1e-4 ? rounded.toExponential() : String(rounded));
}

/** 1:02:03, 2:03, as a clock shows it. */
export function clock(seconds: number): string {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number) => String(n).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** "3 min", as a person says it. */
export function spoken(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  const hours = seconds / 3600;
  return hours < 48 ? `${hours.toFixed(1)} h` : `${(hours / 24).toFixed(1)} days`;
}

// Scales, on d3-scale: where a number stands, and which numbers are named.
import { scaleLinear, scaleLog } from "d3-scale";
import { short } from "../core/format";

export interface Scale {
  place(value: number): number; // in pixels
  ticks: number[];
  text(value: number): string;
}

export interface ScaleOptions {
  title?: string;
  log?: boolean;
  range?: [number, number]; // by default that of the numbers, with `air` around them
  air?: number;
  ticks?: number[]; // only these
  text?: (value: number) => string;
}

/** From the numbers [low, high] to the pixels [from, to], with about `few` ticks. */
export function scale(
  range: [number, number],
  pixels: [number, number],
  few: number,
  { log = false, ticks, text }: ScaleOptions = {},
): Scale {
  const made = (log ? scaleLog() : scaleLinear()).domain(range).range(pixels);
  const count = Math.max(2, Math.floor(few));
  const name = made.tickFormat(count, log ? "g" : undefined);
  const all = ticks ?? (range[0] === range[1] ? [range[0]] : made.ticks(count).filter((tick) => !log || name(tick))); // a logarithm has ticks without a name
  const most = Math.max(...all.map(Math.abs), Math.abs(range[1] - range[0]) / count);
  return { place: made, ticks: all, text: text ?? (log || most >= 1e4 || most < 1e-3 ? short : name) };
}

/** The range of some numbers, with a relative margin on both sides. */
export function paddedRange(values: number[], log: boolean, air: number): [number, number] {
  const known = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!known.length) return log ? [1, 10] : [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (log) {
    const wide = high / low > 1 ? (high / low) ** air : 2;
    return [low / wide, high * wide];
  }
  const more = (high - low || Math.abs(high) || 1) * air;
  return [low - more, high + more];
}

/** Whether numbers span enough for a logarithmic axis. */
export const wantsLog = (values: number[]): boolean => values.every((v) => v > 0) && Math.max(...values) > 20 * Math.min(...values);

// The format of numbers: as many digits as the spread over seeds supports.
import { clock, digits } from "../../core/format";
import type { Spread } from "./groups";

const minus = (text: string): string => text.replace(/^-/, "−");

/** Decimals that show two digits of the median spread; four digits in total without a spread. */
export function decimals(spreads: (Spread | undefined)[]): number {
  const known = spreads.filter((one) => one !== undefined);
  const sds = known.map(({ sd }) => sd ?? 0).filter((sd) => sd > 0).sort((a, b) => a - b); // prettier-ignore
  const size = Math.max(...known.map(({ mean }) => Math.abs(mean)), 0);
  const wanted = sds.length ? 1 - Math.floor(Math.log10(sds[sds.length >> 1])) : 3 - Math.floor(Math.log10(size || 1));
  const most = size >= 1 ? 5 : 6;
  return Math.min(Math.max(wanted, 0), most);
}

/** A number in a column: all with the same decimals, unless it would round to 0. */
export function fixed(value: number, decimals: number): string {
  const text = value.toFixed(decimals);
  return Number(text) === 0 && value !== 0 ? digits(Number(value.toPrecision(2))) : minus(text);
}

/** 1.4823 ± 0.0058 */
export function withSpread({ mean, sd }: Spread, decimals: number): string {
  return sd === undefined ? fixed(mean, decimals) : `${fixed(mean, decimals)} ± ${sd ? fixed(sd, decimals) : "0"}`;
}

/** The same for a screen reader. */
export function rangeText({ mean, low, high, count }: Spread, decimals: number): string {
  if (count < 2) return `${fixed(mean, decimals)}, one seed`;
  return `${fixed(mean, decimals)}, from ${fixed(low, decimals)} to ${fixed(high, decimals)} over ${count} seeds`;
}

/** +0.0123: a difference with its sign. */
export const signed = (value: number, decimals: number): string => `${value > 0 ? "+" : ""}${fixed(value, decimals)}`;

/** A duration: 4.8 s, 2:50. */
export const time = (seconds: number): string => (seconds < 60 ? `${Number(seconds.toPrecision(2))} s` : clock(seconds));

/** 412 MB, in powers of a thousand. */
export const bytes = (size: number): string => scaled(size, ["B", "kB", "MB", "GB", "TB"]);

/** 2.1 G: a short count. */
export const count = (size: number): string => scaled(size, ["", "k", "M", "G", "T", "P"]);

function scaled(size: number, units: string[]): string {
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(size, 1)) / 3), 0), units.length - 1);
  const value = size / 1000 ** power;
  return `${Number(value.toPrecision(3))} ${units[power]}`.trim();
}

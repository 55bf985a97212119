// How numbers of a comparison are written: with as many digits as the spread over seeds lets one believe.
import { clock, digits } from "../axis";
import type { Spread } from "./groups";

const minus = (text: string): string => text.replace(/^-/, "−");

/** Decimals that show two digits of a usual spread; four digits in all where no spread is known. */
export function decimals(spreads: (Spread | undefined)[]): number {
  const known = spreads.filter((one) => one !== undefined);
  const sds = known.map(({ sd }) => sd ?? 0).filter((sd) => sd > 0).sort((a, b) => a - b); // prettier-ignore
  const size = Math.max(...known.map(({ mean }) => Math.abs(mean)), 0);
  const wanted = sds.length ? 1 - Math.floor(Math.log10(sds[sds.length >> 1])) : 3 - Math.floor(Math.log10(size || 1));
  const most = size >= 1 ? 5 : 6;
  return Math.min(Math.max(wanted, 0), most);
}

/** A number in a column: all with the same decimals, unless these would leave nothing of it. */
export function fixed(value: number, places: number): string {
  const text = value.toFixed(places);
  return Number(text) === 0 && value !== 0 ? digits(Number(value.toPrecision(2))) : minus(text);
}

/** 1.4823 ± 0.0058 */
export function meant({ mean, sd }: Spread, places: number): string {
  return sd === undefined ? fixed(mean, places) : `${fixed(mean, places)} ± ${sd ? fixed(sd, places) : "0"}`;
}

/** The same to be heard. */
export function told({ mean, low, high, count }: Spread, places: number): string {
  if (count < 2) return `${fixed(mean, places)}, one seed`;
  return `${fixed(mean, places)}, from ${fixed(low, places)} to ${fixed(high, places)} over ${count} seeds`;
}

/** +0.0123: a difference shows its sign. */
export const signed = (value: number, places: number): string => `${value > 0 ? "+" : ""}${fixed(value, places)}`;

/** 4.8 s, 2:50: as long as a run takes. */
export const time = (seconds: number): string => (seconds < 60 ? `${Number(seconds.toPrecision(2))} s` : clock(seconds));

/** 412 MB: in powers of a thousand. */
export const bytes = (size: number): string => scaled(size, ["B", "kB", "MB", "GB", "TB"]);

/** 2.1 G: how many of something, in few letters. */
export const count = (size: number): string => scaled(size, ["", "k", "M", "G", "T", "P"]);

function scaled(size: number, units: string[]): string {
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(size, 1)) / 3), 0), units.length - 1);
  const value = size / 1000 ** power;
  return `${Number(value.toPrecision(3))} ${units[power]}`.trim();
}

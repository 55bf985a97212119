// How numbers, times, symbols and formulas are written. A number on the page is rounded for the eye only.
import { h } from "./dom";
import type { Piece } from "./ops";

const MINUS = "−";

/** A number in a matrix: integers bare, others with the digits asked for. */
export function number(value: number, digits: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : `${MINUS}∞`;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", MINUS);
  const size = Math.abs(value);
  const text = size >= 1e6 || (size > 0 && size < 0.5 * 10 ** -digits && size < 1e-12) ? scientific(value) : value.toFixed(digits);
  return tidy(text);
}

/** All numbers of one matrix in one style: if one has decimals, all have. */
export function column(data: ArrayLike<number>, digits: number): (value: number) => string {
  let whole = true;
  for (let i = 0; i < data.length && whole; i++) whole = Number.isInteger(data[i]) || !Number.isFinite(data[i]);
  return (value) =>
    whole || !Number.isFinite(value) ? number(value, 0) : tidy(Math.abs(value) >= 1e6 ? scientific(value) : value.toFixed(digits));
}

const tidy = (text: string): string => (/^-0\.?0*$/.test(text) ? text.slice(1) : text.replace("-", MINUS));

/** 1.2·10⁻¹⁶, for errors. */
export function scientific(value: number): string {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return number(value, 0);
  const [mantissa, exponent] = value.toExponential(1).split("e");
  const digits = exponent
    .replace("+", "")
    .replace("-", "⁻")
    .replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(d)]);
  return `${mantissa.replace("-", MINUS)}·10${digits}`;
}

/** An error as a person reads it: small ones as powers of ten, larger ones as percent, huge ones as a factor. */
export function error(value: number): string {
  if (value < 1e-3) return scientific(value);
  return value < 9.995 ? `${(value * 100).toPrecision(3)} %` : `${Math.round(value)} times its size`;
}

/** "W_Q" with a real subscript. */
export function symbol(text: string): HTMLElement {
  const [base, ...rest] = text.split("_");
  const letters = h("i.sym", base);
  if (rest.length) letters.append(h("sub", rest.join("_")));
  return letters;
}

/** A formula's right-hand side, with the symbols of the inputs filled in. */
export function formula(pieces: Piece[], symbols: string[]): HTMLElement {
  const one = (piece: Piece): Node => {
    if ("text" in piece) return document.createTextNode(piece.text);
    if ("symbol" in piece) return symbol(symbols[piece.symbol]);
    if ("sup" in piece) return h("sup", piece.sup.map(one));
    if ("sub" in piece) return h("sub", piece.sub.map(one));
    if ("sqrt" in piece) return h("span.sqrt", "√", h("span.under", piece.sqrt.map(one)));
    return h("span.frac", h("span", piece.frac[0].map(one)), h("span", piece.frac[1].map(one)));
  };
  return h("span.formula", pieces.map(one));
}

/** The same as words for a screen reader or a title. */
export const plain = (text: string): string => text.replace("_", " ");

export const capital = (text = ""): string => text.charAt(0).toUpperCase() + text.slice(1);

// --- numbers of charts and tables ----------------------------------------------------------------------------------------
const minus = (text: string): string => text.replace(/^-/, MINUS);

/** 12k, 3M, 3e-4: a number on an axis. */
export function short(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15) return minus(`${trimmed(value / 1e15)}P`);
  if (size >= 1e12) return minus(`${trimmed(value / 1e12)}T`);
  if (size >= 1e9) return minus(`${trimmed(value / 1e9)}G`);
  if (size >= 1e6) return minus(`${trimmed(value / 1e6)}M`);
  if (size >= 1e4) return minus(`${trimmed(value / 1e3)}k`);
  if (size < 1e-3) return minus(value.toExponential(1).replace(".0e", "e"));
  return minus(trimmed(value));
}

const trimmed = (value: number): string => String(Number(value.toPrecision(4)));

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

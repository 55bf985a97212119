// What an operation is to the page: how it computes, how one cell came about, and how it is written. An explanation is data:
// the page derives the highlighted cells, the line of arithmetic and the arrows from it.
import type { StepRecord } from "../contract";
import { aligned, at, type Tensor } from "../tensor";

export type Params = NonNullable<StepRecord["params"]>;

/** A cell of an input: its number is printed, and the cell lights up. */
export interface Cell {
  input: number;
  index: number[];
}

export type Term = { text: string } | Cell;

/**
 * value  the cell computed again, from the operands of this cell alone
 * more   cells that took part but are not printed; they light up too
 */
export interface Explanation {
  terms: Term[];
  value: number;
  note?: string;
  more?: Cell[];
}

export type Piece =
  { text: string } | { symbol: number } | { sup: Piece[] } | { sub: Piece[] } | { frac: [Piece[], Piece[]] } | { sqrt: Piece[] };

export interface Op {
  evaluate(inputs: Tensor[], params: Params): Tensor;
  explain(inputs: Tensor[], params: Params, index: number[], output: Tensor): Explanation;
  formula(symbols: string[], params: Params): Piece[];
}

// --- writing ------------------------------------------------------------------------------------------------------------
export const cell = (input: number, index: number[]): Cell => ({ input, index });
export const symbol = (input: number): Piece => ({ symbol: input });

type Written<T> = T | T[] | string | number;

/** terms`${cell(0, i)}·${cell(1, j)}`: text and cells in reading order. */
export const terms = (texts: TemplateStringsArray, ...parts: Written<Term>[]): Term[] => weave<Term>(texts, parts);

/** pieces`${symbol(0)} + ${symbol(1)}`: the right-hand side of a formula. */
export const pieces = (texts: TemplateStringsArray, ...parts: Written<Piece>[]): Piece[] => weave<Piece>(texts, parts);

function weave<T>(texts: TemplateStringsArray, parts: Written<T>[]): (T | { text: string })[] {
  const out: (T | { text: string })[] = [];
  texts.forEach((text, i) => {
    if (text) out.push({ text });
    if (i < parts.length) out.push(...[parts[i]].flat().map((p) => (typeof p === "object" ? p : { text: String(p) }) as T));
  });
  return out;
}

/** A number inside a sentence: six digits, and a minus sign that is not a hyphen. */
export const short = (value: number): string => String(Number(value.toPrecision(6))).replaceAll("-", "−");

export const PRINTED = 8; // terms of one computation
const BEGINNING = 4;

/** Parts with something between them; of more than eight, the first four and the last are printed. */
export function listing(parts: Term[][], between: string): { terms: Term[]; more: Cell[] } {
  const long = parts.length > PRINTED;
  const printed = long ? [...parts.slice(0, BEGINNING), terms`…`, parts[parts.length - 1]] : parts;
  const hidden = long ? parts.slice(BEGINNING, -1).flat() : [];
  return {
    terms: printed.flatMap((part, i) => (i ? [{ text: between }, ...part] : part)),
    more: hidden.filter((term) => "input" in term),
  };
}

// --- explanations that several operations share -------------------------------------------------------------------------
/** A number that only moved: out of `index` of the first input. */
export const moved = (x: Tensor, index: number[], note?: string): Explanation => ({
  terms: [cell(0, index)],
  value: at(x, index),
  ...(note ? { note } : {}),
});

/** The two cells that meet in a cell of a broadcast result, and their numbers. */
export function pair([a, b]: Tensor[], index: number[]): { cells: [Cell, Cell]; numbers: [number, number] } {
  const [i, j] = [aligned(index, a.shape), aligned(index, b.shape)];
  return { cells: [cell(0, i), cell(1, j)], numbers: [at(a, i), at(b, j)] };
}

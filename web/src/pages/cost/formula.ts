// The formulas of the record, evaluated exactly as big integers. The twin of `amount` in src/equiscope/record/cost.py.
import type { Cost, CostTerm, CostPart } from "../../core/contract";

/** Sizes by letter: B N D H G F L V P T E. K, the width of a head, follows from D and H. */
export type Sizes = Record<string, number>;

export interface Model {
  sizes: Sizes;
  has: string[]; // the conditions of `Term.only` that hold
}

/** The quantity: a whole pass, one more token, or the parameters. */
export type Column = "full_pass" | "decoding_step" | "parameters";

const known = ({ sizes }: Model): Sizes => ({ ...sizes, K: sizes.D / sizes.H });
export const counts = (term: CostTerm, { has }: Model): boolean => (term.requires ?? []).every((one) => has.includes(one));

/** The sum of these products. */
export function amount(terms: CostTerm[], model: Model): bigint {
  const sizes = known(model);
  let sum = 0n;
  for (const term of terms)
    if (counts(term, model)) sum += [...term.symbols].reduce((so, letter) => so * BigInt(sizes[letter]), BigInt(term.coefficient));
  return sum;
}

/** The amount over all layers, or of a part outside the layers. */
export const total = (work: CostPart, column: Column, model: Model): bigint =>
  amount(work[column] ?? [], model) * (work.per_layer === false ? 1n : BigInt(model.sizes.L));

/** Multiply-adds (or parameters) of the whole model, without what FLOP counters leave out. */
export const all = ({ parts: work }: Cost, column: Column, model: Model): bigint =>
  work.reduce((sum, one) => sum + (one.counted === false && column !== "parameters" ? 0n : total(one, column, model)), 0n);

// --- formulas in print ----------------------------------------------------------------------------------------------------

/** A product with equal letters collected: 4 · N · D². */
export interface Product {
  times: number;
  powers: [string, number][]; // a letter and how often, in the order of the formula
}

/** The terms that count, without B = 1, with G·K as D where every head has its own keys, and F as a multiple of D where it is one. */
export function products(terms: CostTerm[], model: Model): Product[] {
  const { sizes } = model;
  const found = new Map<string, Product>();
  for (const term of terms) {
    if (!counts(term, model)) continue;
    let [letters, times] = [term.symbols, term.coefficient];
    if (sizes.B === 1) letters = letters.replaceAll("B", "");
    if (sizes.G === sizes.H && /G.*K/.test(letters)) letters = letters.replace("G", "").replace("K", "D");
    if (sizes.F % sizes.D === 0 && letters.includes("F"))
      [letters, times] = [letters.replace("F", "D"), (times * sizes.F) / sizes.D];
    const key = [...letters].sort().join("");
    const before = found.get(key);
    if (before) before.times += times;
    else found.set(key, { times, powers: powers(letters) });
  }
  return [...found.values()].filter(({ times }) => times !== 0);
}

function powers(letters: string): [string, number][] {
  const out = new Map<string, number>();
  for (const letter of letters) out.set(letter, (out.get(letter) ?? 0) + 1);
  return [...out];
}

const SUPER = ["", "", "²", "³"];

/** 4ND² + 2NDGK; 0 for nothing. */
export function letters(terms: CostTerm[], model: Model): string {
  return sum(products(terms, model).map(({ times, powers }) => ({ times, text: `${size(times, powers)}${powers.map(([letter, power]) => letter + SUPER[power]).join("")}` }))); // prettier-ignore
}

/** 4 · 1,024 · 768² */
export function operands(terms: CostTerm[], model: Model): string {
  const sizes = known(model);
  return sum(
    products(terms, model).map(({ times, powers }) => {
      const factors = powers.map(([letter, power]) => whole(sizes[letter]) + SUPER[power]);
      return {
        times,
        text: (Math.abs(times) === 1 && factors.length ? factors : [String(Math.abs(times)), ...factors]).join(" · "),
      };
    }),
  );
}

const size = (times: number, powers: unknown[]): string => (Math.abs(times) === 1 && powers.length ? "" : String(Math.abs(times)));
const sum = (parts: { times: number; text: string }[]): string =>
  parts.map(({ times, text }, i) => (i ? (times < 0 ? " − " : " + ") : times < 0 ? "−" : "") + text).join("") || "0";

/** The whole model in one line: L · (12ND² + 2N²D) + NDV, and the same with its numbers. */
export function together({ parts: work }: Cost, column: Column, model: Model): { letters: string; operands: string } {
  const of = (layers: boolean) =>
    work.flatMap((one) => ((one.per_layer ?? true) === layers && one.counted !== false ? (one[column] ?? []) : []));
  const line = (write: (terms: CostTerm[], model: Model) => string, times: string) => {
    const [inside, once] = [write(of(true), model), write(of(false), model)];
    return `${times} · (${inside})${once === "0" ? "" : ` + ${once}`}`;
  };
  return { letters: line(letters, "L"), operands: line(operands, whole(model.sizes.L)) };
}

/** 1,024: all digits. */
export const whole = (value: number | bigint): string => value.toLocaleString("en");

/** 145.8 G: in four digits. */
export function brief(value: number | bigint): string {
  const size = Number(value);
  if (size < 10_000) return whole(value);
  const units = ["", "k", "M", "G", "T", "P", "E"];
  let power = Math.min(Math.floor(Math.log10(size) / 3), units.length - 1);
  if (Number((size / 1000 ** power).toPrecision(4)) >= 1000 && power < units.length - 1) power++;
  return `${Number((size / 1000 ** power).toPrecision(4)).toLocaleString("en")} ${units[power]}`;
}

/** Bytes in powers of a thousand. */
export const stored = (value: number | bigint): string => {
  const text = brief(value);
  return `${text}${/[a-zA-Z]$/.test(text) ? "" : " "}B`;
};

/** 41 %, and a decimal where it is small. */
export function percent(part: bigint, of: bigint): string {
  if (!of) return "–";
  const share = (Number(part) / Number(of)) * 100;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  return `${share < 9.95 ? Number(share.toFixed(1)) : Math.round(share)} %`;
}

// --- where attention overtakes the feed-forward ---------------------------------------------------------------------------

/** The length at which one layer's attention costs as much as its feed-forward: (forward − maps) / pairs. */
export interface Crossing {
  at: number | undefined; // undefined: attention costs more at every length
  forward: CostTerm[]; // of one token in the feed-forward
  maps: CostTerm[]; // of one token in the projections, where they are included
  pairs: CostTerm[]; // of one pair of tokens
}

/** projections: whether the projections of attention are included, or its two products only. */
export function crossing({ parts: work }: Cost, model: Model, projections: boolean): Crossing {
  const [forward, maps, pairs]: [CostTerm[], CostTerm[], CostTerm[]] = [[], [], []];
  for (const { per_layer: layers, counted, group, full_pass: whole } of work) {
    if (layers === false || counted === false) continue;
    for (const term of whole ?? []) {
      const each = { ...term, symbols: term.symbols.replaceAll("N", "") };
      if (term.symbols.length - each.symbols.length === 2) pairs.push(each);
      else if (group === "feed-forward") forward.push(each);
      else if (projections) maps.push(each);
    }
  }
  const more = amount(forward, model) - amount(maps, model);
  return { at: more > 0n ? Number(more) / Number(amount(pairs, model)) : undefined, forward, maps, pairs };
}

/** All divisors of a number, the smallest first. */
export function divisors(of: number): number[] {
  const [low, high]: [number[], number[]] = [[], []];
  for (let i = 1; i * i <= of; i++)
    if (of % i === 0) {
      low.push(i);
      if (i * i < of) high.unshift(of / i);
    }
  return [...low, ...high];
}

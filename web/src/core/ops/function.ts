// function: a function of each number that is plain arithmetic, written as such.
import { at, map } from "../tensor";
import { nearest } from "./nearest";
import { type Cell, cell, type Op, type Params, type Piece, pieces, symbol, type Term, terms } from "./op";

interface Curve {
  at(x: number): number;
  written(x: Cell): Term[];
  title(x: Piece): Piece[];
}

const CURVES: Record<string, Curve> = {
  exp: { at: Math.exp, written: (x) => terms`e^${x}`, title: (x) => pieces`e${{ sup: [x] }}` },
  log1p: { at: Math.log1p, written: (x) => terms`ln(1 + ${x})`, title: (x) => pieces`ln(1 + ${x})` },
  sqrt: { at: Math.sqrt, written: (x) => terms`√${x}`, title: (x) => [{ sqrt: [x] }] },
  square: { at: (x) => x * x, written: (x) => terms`${x}²`, title: (x) => pieces`${x}²` },
  floor: { at: Math.floor, written: (x) => terms`⌊${x}⌋`, title: (x) => pieces`⌊${x}⌋` },
  round: { at: nearest, written: (x) => terms`round(${x})`, title: (x) => pieces`round(${x})` },
  sigmoid: { at: (x) => 1 / (1 + Math.exp(-x)), written: (x) => terms`1 / (1 + e^(−${x}))`, title: (x) => pieces`σ(${x})` },
  softplus: { at: softplus, written: (x) => terms`ln(1 + e^${x})`, title: (x) => pieces`softplus(${x})` },
};

export const function_: Op = {
  evaluate: ([x], params) => map(x, curve(params).at),
  explain: ([x], params, index) => ({ terms: curve(params).written(cell(0, index)), value: curve(params).at(at(x, index)) }),
  formula: (_, params) => curve(params).title(symbol(0)),
};

/** torch gives x itself above 20, where the two differ by less than 3e-9 and e^x would one day overflow. */
function softplus(x: number): number {
  return x > 20 ? x : Math.log1p(Math.exp(x));
}

function curve({ kind }: Params): Curve {
  const found = CURVES[String(kind)];
  if (!found) throw new Error(`There is no function called '${kind}'. Known: ${Object.keys(CURVES).join(", ")}.`);
  return found;
}

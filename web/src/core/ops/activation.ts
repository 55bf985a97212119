// activation: a function of each number, the same for all.
import { at, map } from "../tensor";
import { erf } from "./erf";
import { cell, type Cell, type Op, type Params, pieces, symbol, type Term, terms } from "./op";

interface Curve {
  title: string;
  at(x: number): number;
  written(x: Cell): Term[];
}

const SLOPE = Math.sqrt(2 / Math.PI);
const CURVES: Record<string, Curve> = {
  relu: { title: "ReLU", at: (x) => Math.max(x, 0), written: (x) => terms`max(${x}, 0)` },
  gelu: { title: "GELU", at: (x) => x * 0.5 * (1 + erf(x * Math.SQRT1_2)), written: (x) => terms`${x}·(1 + erf(${x} / √2)) / 2` },
  "gelu-tanh": {
    title: "GELU (tanh)",
    at: (x) => (x / 2) * (1 + Math.tanh(SLOPE * (x + 0.044715 * x ** 3))),
    written: (x) => terms`${x}·(1 + tanh(√(2/π)·(${x} + 0.044715·${x}³))) / 2`,
  },
  silu: { title: "SiLU", at: (x) => x / (1 + Math.exp(-x)), written: (x) => terms`${x} / (1 + e^(−${x}))` },
  tanh: { title: "tanh", at: Math.tanh, written: (x) => terms`tanh(${x})` },
};

export const activation: Op = {
  evaluate: ([x], params) => map(x, curve(params).at),
  explain: ([x], params, index) => ({ terms: curve(params).written(cell(0, index)), value: curve(params).at(at(x, index)) }),
  formula: (_, params) => pieces`${curve(params).title}(${symbol(0)})`,
};

function curve({ kind }: Params): Curve {
  const found = CURVES[String(kind)];
  if (!found) throw new Error(`There is no activation called '${kind}'. Known: ${Object.keys(CURVES).join(", ")}.`);
  return found;
}

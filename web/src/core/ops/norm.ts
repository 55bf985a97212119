// norm: each row divided by its size: LayerNorm's core (center) or RMSNorm's, without gain and shift.
import { at, type Tensor, zeros } from "../tensor";
import { cell, type Op, pieces, short, symbol, terms } from "./op";

export const norm: Op = {
  evaluate([x], { center, eps }) {
    const [out, width] = [zeros(x.shape), x.shape[x.shape.length - 1]];
    for (let start = 0; start < x.data.length; start += width) {
      let [sum, squares] = [0, 0];
      if (center) for (let i = start; i < start + width; i++) sum += x.data[i];
      const mean = sum / width;
      for (let i = start; i < start + width; i++) squares += (x.data[i] - mean) ** 2;
      const by = 1 / Math.sqrt(squares / width + Number(eps));
      for (let i = start; i < start + width; i++) out.data[i] = (x.data[i] - mean) * by;
    }
    return out;
  },
  explain([x], { center, eps }, index) {
    const { numbers, others } = rowAt(x, index);
    const m = center ? average(numbers) : 0;
    const v = average(numbers.map((number) => (number - m) ** 2));
    const value = (at(x, index) - m) / Math.sqrt(v + Number(eps));
    const [mine, ε] = [cell(0, index), short(Number(eps))];
    const note = `${center ? `mean m = ${short(m)}, variance v` : "mean square q"} = ${short(v)} of ${numbers.length} numbers`;
    return { terms: center ? terms`(${mine} − m) / √(v + ${ε})` : terms`${mine} / √(q + ${ε})`, value, note, more: others };
  },
  formula: (_, { center }) => (center ? pieces`norm(${symbol(0)})` : pieces`RMSnorm(${symbol(0)})`),
};

const average = (numbers: number[]): number => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

function rowAt(x: Tensor, index: number[]) {
  const lead = index.slice(0, -1);
  const places = Array.from({ length: x.shape[x.shape.length - 1] }, (_, k) => [...lead, k]);
  const others = places.filter((_, k) => k !== index[index.length - 1]).map((place) => cell(0, place));
  return { numbers: places.map((place) => at(x, place)), others };
}

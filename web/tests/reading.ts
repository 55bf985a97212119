// Read the line of an explanation as arithmetic, with the numbers of its cells: what the page prints must be true.
import type { Explanation } from "../src/ops";
import { at, type Tensor } from "../src/tensor";

/** What the printed terms come to, or nothing where some are left out ("…"). */
export function reading({ terms, note = "" }: Explanation, inputs: Tensor[]): number | undefined {
  const line = terms.map((term) => ("text" in term ? term.text : `(${at(inputs[term.input], term.index)})`)).join("");
  if (line.includes("…")) return undefined;
  const named = [...note.matchAll(/\b([mvq]) = ([−\d.e]+)/g)].map(([, name, digits]) => `const ${name} = ${plain(digits)};`);
  return Number(new Function("erf", `${named.join("")} return ${plain(line)};`)(erf));
}

/** The page's typography as JavaScript. */
const plain = (line: string): string =>
  line
    .replace(/\|(.*)\|/, "Math.abs($1)")
    .replace(/√(\d+)/g, "Math.sqrt($1)")
    .replace(/√/g, "Math.sqrt")
    .replace(/\b(max|sin|cos|tanh)\(/g, "Math.$1(")
    .replace(/e\^/g, "Math.E ** ")
    .replace(/∞/g, "Infinity")
    .replaceAll("−", "-")
    .replaceAll("·", "*")
    .replaceAll("≤", "<=")
    .replaceAll("∧", "&&");

/** By Simpson's rule: slow, and independent of the one in src/ops. */
function erf(x: number): number {
  const [n, h] = [2000, x / 2000];
  let sum = 1 + Math.exp(-x * x);
  for (let i = 1; i < n; i++) sum += (i % 2 ? 4 : 2) * Math.exp(-((i * h) ** 2));
  return ((2 / Math.sqrt(Math.PI)) * sum * h) / 3;
}

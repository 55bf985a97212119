// Read the line of an explanation as arithmetic, with the numbers of its cells: what the page prints must be true.
import type { Explanation } from "../src/core/ops";
import { at, type Tensor } from "../src/core/tensor";

/** What the printed terms come to, or nothing where some are left out ("…"). */
export function reading({ terms, note = "" }: Explanation, inputs: Tensor[]): number | undefined {
  const line = terms.map((term) => ("text" in term ? term.text : `(${at(inputs[term.input], term.index)})`)).join("");
  if (line.includes("…")) return undefined;
  const named = [...note.matchAll(/\b([mvq]) = ([−\d.e]+)/g)].map(([, name, digits]) => `const ${name} = ${plain(digits)};`);
  return Number(new Function("erf", "round", "trunc", `${named.join("")} return ${plain(line)};`)(erf, round, Math.trunc));
}

/** The page's typography as JavaScript. */
const plain = (line: string): string =>
  line
    .replace(/\|(.*)\|/, "Math.abs($1)")
    .replace(/√(\d+)/g, "Math.sqrt($1)")
    .replace(/√/g, "Math.sqrt")
    .replace(/\b(max|min|sin|cos|tanh)\(/g, "Math.$1(")
    .replace(/\bln\(/g, "Math.log(")
    .replace(/(\S+) mod (\d+)/, "(($1 % $2) + $2) % $2")
    .replaceAll("⌊", "Math.floor(1e-9 + ") // 2·ln 3 / ln 9 is 1, but a little less in floating point
    .replaceAll("⌋", ")")
    .replaceAll("²", " ** 2")
    .replaceAll("³", " ** 3")
    .replaceAll("π", "Math.PI")
    .replaceAll(" = ", " == ")
    .replace(/e\^/g, "Math.E ** ")
    .replace(/∞/g, "Infinity")
    .replaceAll("−", "-")
    .replaceAll("·", "*")
    .replaceAll("≤", "<=")
    .replaceAll("∧", "&&")
    .replaceAll("∨", "||")
    .replaceAll("¬", "!");

/** To the even neighbour where two are as near; unlike the one in src/ops it looks at the fraction. */
function round(x: number): number {
  const below = Math.floor(x);
  return x - below === 0.5 ? 2 * Math.round(x / 2) : x - below < 0.5 ? below : below + 1;
}

/** By Simpson's rule: slow, and independent of the one in src/ops. */
function erf(x: number): number {
  const [n, h] = [2000, x / 2000];
  let sum = 1 + Math.exp(-x * x);
  for (let i = 1; i < n; i++) sum += (i % 2 ? 4 : 2) * Math.exp(-((i * h) ** 2));
  return ((2 / Math.sqrt(Math.PI)) * sum * h) / 3;
}

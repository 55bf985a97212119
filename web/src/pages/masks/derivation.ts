// The derivation of a number: how a cell of each step is computed, with its operands.
import { h } from "../../core/dom";
import { number, symbol } from "../../core/format";
import type { ProgramRecord } from "../../core/contract";
import { symbolOf } from "../../core/names";
import type { Program } from "../../core/program";
import { aligned, at } from "../../core/tensor";

export const DIGITS = 4;

const MOVES = ["column", "row", "heads", "transpose"];

/** One line of a derivation: symbol, arithmetic, number. Undefined for a step that only moves numbers, unless it is the last. */
export function derivationLine(
  programRecord: ProgramRecord,
  program: Program,
  id: string,
  index: number[],
  last = false,
): HTMLElement | undefined {
  const step = programRecord.steps.find((one) => one.id === id);
  if (!step || (MOVES.includes(step.op) && !last)) return undefined;
  const place = aligned(index, program.get(id).shape);
  if (step.op === "mask" && at(program.get(id), place) !== -Infinity) return undefined;
  const operands = program.operands(id, place)!;
  const line = operands.terms.map((term) =>
    "text" in term
      ? term.text
      : h("span.term", bracketed(number(at(program.get(term.id), term.index), DIGITS), operands.terms.length)),
  );
  const isPredicate = last || operands.note === "yes" || operands.note === "no";
  const value = at(program.get(id), place);
  const result = isPredicate ? (value ? "yes" : "no") : number(value, DIGITS);
  return h(
    "div.rung",
    { "data-step": step.op, "data-id": id },
    h("span.what", symbol(symbolOf(step, programRecord)), h("span.quiet", step.label ?? "")),
    h("span.how", line),
    h("b.result", isPredicate ? result : `= ${result}`),
  );
}

const bracketed = (text: string, terms: number): string => (terms > 1 && text.startsWith("−") ? `(${text})` : text);

/** The steps from a weight back to the products of query and key. */
export function stepsBack(programRecord: ProgramRecord, weights: string): string[] {
  const found: string[] = [];
  for (let id: string | undefined = weights; id;) {
    const step = programRecord.steps.find((one) => one.id === id);
    if (!step) break;
    found.push(id);
    id = step.op === "matmul" ? undefined : step.inputs[0];
  }
  return found;
}

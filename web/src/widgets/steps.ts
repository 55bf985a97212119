// Steps on a page: one as an equation, and the way from a box of their graph to the numbers.
import type { LeafRecord, ProgramRecord, StepRecord } from "../core/contract";
import type { Run } from "../core/desk";
import { h } from "../core/dom";
import { formula, symbol } from "../core/format";
import { letters, symbolOf } from "../core/names";
import { OPERATIONS } from "../core/ops";

/** "Q = X W_Q": a step as an equation. */
export function equation(run: Run, id: string): HTMLElement | undefined {
  const step = run.record.program.steps.find((s) => s.id === id);
  if (!step) return undefined;
  const symbols = step.inputs.map((input) => letters(run, input));
  const right = formula(OPERATIONS[step.op].formula(symbols, step.params ?? {}), symbols);
  const left = symbol(letters(run, id));
  const same = left.textContent!.replace("ᵀ", "T") === right.textContent || (step.op === "transpose" && !step.symbol); // "Kᵀ = Kᵀ" says nothing
  return h("span.equation", left, ...(same ? [] : [" = ", right]));
}

/** Bring the numbers of a value on screen, and let them flash. */
export function reveal(root: HTMLElement, id: string): void {
  const figure = root.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`);
  if (!figure) return;
  figure.scrollIntoView({
    block: "center",
    inline: "nearest",
    behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
  });
  figure.classList.remove("flash");
  requestAnimationFrame(() => figure.classList.add("flash"));
  figure.querySelector<HTMLElement>("[tabindex='0']")?.focus({ preventScroll: true });
}

/** Some steps of a program as a program of their own, with the names of the whole; values from other steps become leaves. */
export function part(programRecord: ProgramRecord, ids: string[]): ProgramRecord {
  const own = new Set(ids);
  const called = (step: StepRecord) => ({ ...step, symbol: symbolOf(step, programRecord) });
  const steps = programRecord.steps.filter(({ id }) => own.has(id)).map(called);
  const asked = new Set(steps.flatMap(({ inputs }) => inputs).filter((id) => !own.has(id)));
  const leaves = [...programRecord.leaves, ...programRecord.steps]
    .filter(({ id }) => asked.has(id))
    .map((found) => ("op" in found ? given(called(found)) : found));
  const used = new Set(steps.flatMap(({ inputs }) => inputs));
  const outputs = steps.filter(({ id }) => !used.has(id)).map(({ id }) => id);
  return { leaves, steps, outputs };
}

const given = ({ id, symbol, label, axes, where }: StepRecord): LeafRecord => ({ id, symbol, label, axes, where, kind: "content" });

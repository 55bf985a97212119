// Steps on a page: one as an equation, and the way from a box of their graph to the numbers.
import { h } from "../dom";
import { formula, symbol } from "../format";
import type { Run } from "../lab";
import { letters } from "../names";
import { OPERATIONS } from "../ops";

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

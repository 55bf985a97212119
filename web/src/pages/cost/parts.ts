// Every part as a row: its formula, the formula with the numbers of this model, the result.
import { h } from "../../core/dom";
import { table } from "../../core/tables";
import { all, letters, operands, percent, total, whole } from "./formula";
import type { CostPage } from "./page";
import { chosen } from "./state";

const HEADS = ["part", "per layer", "with numbers", "layers", "multiply-adds", "share", "parameters"];

/** The rows to show and to copy. */
export function rows(page: CostPage): string[][] {
  const model = chosen(page.cost, page.state);
  const sum = all(page.cost, "full_pass", model);
  const parts = page.cost.parts.map((work) => {
    const { name, per_layer: layers, counted, full_pass: terms = [] } = work;
    const value = total(work, "full_pass", model);
    const unit = counted === false ? " exponentials" : "";
    return [
      name, letters(terms, model), value ? operands(terms, model) : "0", layers === false ? "once" : `× ${whole(model.sizes.L)}`,
      `${whole(value)}${unit}`, counted === false ? "not counted" : percent(value, sum), whole(total(work, "parameters", model)),
    ]; // prettier-ignore
  });
  return [...parts, ["all", "", "", "", whole(sum), "100 %", whole(all(page.cost, "parameters", model))]];
}

/** For a spreadsheet: columns by tabs. */
export const copied = (page: CostPage): string => [HEADS, ...rows(page)].map((row) => row.join("\t")).join("\n") + "\n";

export function parts(page: CostPage): { element: HTMLElement; draw(): void } {
  const place = h("div");
  const draw = () => {
    const lines = rows(page);
    place.replaceChildren(table("Every part with its formula and result", HEADS, lines, { class: "numbers parts" }));
    place.querySelectorAll("tbody tr").forEach((row, i) => row.classList.toggle("all", i === lines.length - 1));
  };
  return { element: place, draw };
}

// Why is a transformer a graph network? Reasons with numbers that Python measured when the page was built, and how to reproduce them.
import type { Messages, Reason } from "../../core/contract";
import { h } from "../../core/dom";
import { error } from "../../core/format";

type Figures = NonNullable<Reason["figures"]>;

export function reasons(record: Messages): HTMLElement[] {
  return [
    h(
      "section.part.reasons",
      h("h2", "Why is a transformer a graph network?"),
      h("ol", record.reasons.map((reason) => h("li", entry(reason)))), // prettier-ignore
    ),
    h(
      "section.part.reasons",
      h("h2", "What a transformer adds to a plain graph network"),
      h("ul", record.differences.map((reason) => h("li", entry(reason)))), // prettier-ignore
    ),
  ];
}

function entry({ claim, text, method, measurements = [], figures, command }: Reason): HTMLElement[] {
  return [
    h("h3", claim),
    h("p", text),
    ...(figures ? [table(figures, claim)] : []),
    ...(measurements.length
      ? [h("dl.facts", measurements.map((fact) => h("div", h("dt", fact.text), h("dd", { "data-fact": fact.name, "data-value": fact.value, title: fact.source }, error(fact.value)))))] // prettier-ignore
      : []),
    ...(command
      ? [h("details.method", h("summary.quiet", "How it was measured"), h("p.quiet", method ?? ""), h("p.quiet", "To repeat it: ", h("code", command)))] // prettier-ignore
      : []),
  ];
}

const table = ({ corner, columns, rows, numbers }: Figures, name: string): HTMLElement =>
  h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": name },
    h(
      "table.figures",
      h("thead", h("tr", h("th", { scope: "col" }, corner), columns.map((column) => h("th", { scope: "col" }, column)))), // prettier-ignore
      h("tbody", rows.map((row, r) => h("tr", h("th", { scope: "row" }, row), numbers[r].map((number) => h("td", { "data-value": number, "data-zero": String(number === 0) }, figure(number)))))), // prettier-ignore
    ),
  );

/** Integers in full, others with three digits; "0" only for exactly 0. */
export const figure = (number: number): string =>
  Number.isInteger(number) ? number.toLocaleString("en") : number < 1e-4 ? error(number) : String(Number(number.toPrecision(3)));

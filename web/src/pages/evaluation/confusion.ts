// Confusions: a row for each true class, a column for each answer. Of many classes, the pairs that are confused most.
import type { PartEvaluation } from "../../core/contract";
import { asPart, h } from "../../core/dom";
import { table } from "../../core/tables";

const WHOLE = 30; // classes of a matrix that is shown whole
const PAIRS = 30; // confusions that are listed

export function confusion(part: PartEvaluation): HTMLElement {
  const [counts, classes] = [part.confusion!, part.classes!];
  return asPart(
    "confusion",
    h(
      "section.part",
      h("h2", "Confusions"),
      classes.length <= WHOLE
        ? [h("p.quiet", "A row for each true class, a column for each answer. Shades are shares of the row."), matrix(counts, classes)] // prettier-ignore
        : [h("p.quiet", `${classes.length} classes. The most frequent confusions:`), most(counts, classes)],
    ),
  );
}

const total = (row: number[]): number => row.reduce((sum, n) => sum + n, 0);
const share = (n: number, of: number): string => (of ? `${((100 * n) / of).toFixed(n === of || !n ? 0 : 1)} %` : "–");

function matrix(counts: number[][], classes: string[]): HTMLElement {
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": "confusion matrix" },
    h(
      "table.confusion",
      h("caption.spoken", "Confusion matrix: rows are true classes, columns are answers"),
      h(
        "thead",
        h("tr", h("th", { scope: "col" }, "true class"), classes.map((name) => h("th", { scope: "col" }, h("span", name))), h("th", { scope: "col" }, h("span", "right"))), // prettier-ignore
      ),
      h(
        "tbody",
        counts.map((row, i) => {
          const all = total(row);
          const cell = (n: number, j: number) =>
            h(
              "td",
              { "data-kind": i === j ? "right" : n ? "wrong" : "none", style: `--share:${all ? n / all : 0}`, title: `${classes[i]}, answered ${classes[j]}: ${n} of ${all}` }, // prettier-ignore
              n ? String(n) : h("span.quiet", "0"),
            );
          return h("tr", h("th", { scope: "row" }, classes[i]), row.map(cell), h("td.rate", share(row[i], all)));
        }),
      ),
    ),
  );
}

function most(counts: number[][], classes: string[]): HTMLElement {
  const pairs = counts.flatMap((row, i) => row.flatMap((n, j) => (n && i !== j ? [{ n, i, j, all: total(row) }] : [])));
  pairs.sort((a, b) => b.n - a.n || a.i - b.i || a.j - b.j);
  const rows = pairs.slice(0, PAIRS).map(({ n, i, j, all }) => [classes[i], classes[j], String(n), share(n, all)]);
  return table("confusions", ["true class", "answer", "examples", "of this class"], rows, { class: "measures" });
}

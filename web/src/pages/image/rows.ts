// The numbers of the selected patch: its features, its query, and the patches that it attends to most, with their keys and scores.
import { pixels } from "../../charts/canvas";
import { h } from "../../core/dom";
import { symbol } from "../../core/format";
import type { ImageDesk } from "./desk";
import { paint, speaking, swatch, type Asked } from "./numbers";

const MOST = 5; // patches that are listed

interface Piece {
  element: HTMLElement;
  draw(): void;
}

/** A line of numbers of the selected patch, under their names. */
export function line(desk: ImageDesk, role: string, letters: string, label: string, heads: string[] = []): Piece {
  const wide = desk.value(role).shape.at(-1)!;
  const cells = [Array.from({ length: wide }, () => h("span.cell"))];
  const grid = h(
    "div.numbers",
    { role: "grid", "aria-label": `${letters}: ${label}` },
    heads.length ? h("div.names", { "aria-hidden": "true" }, heads.map((name) => h("span", name))) : false, // prettier-ignore
    h("div.values", { role: "row" }, cells[0]),
  );
  const write = speaking(desk, grid, cells, (_, column): Asked => ({ role, patch: desk.state.patch, column }));
  return {
    element: h("div.line-of", h("p.caption", symbol(letters), " ", h("span.quiet", label)), grid),
    draw: write,
  };
}

/** The selected patch enlarged, with its features. */
export function features(desk: ImageDesk, image: HTMLCanvasElement): Piece {
  const { side, features: names } = desk.record;
  const large = pixels(side, side);
  large.className = "large";
  large.setAttribute("role", "img");
  const numbers = line(desk, "features", "E", "its features: the mean of each colour, from 0 to 1, and the brightness of the left half less that of the right", names); // prettier-ignore
  const mean = swatch([0, 0, 0]);
  const title = h("h2");
  return {
    element: h("div.enlarged", title, h("div.two-up", large, mean), numbers.element),
    draw() {
      const { patch } = desk.state;
      const [top, left] = [Math.floor(patch / desk.columns) * side, (patch % desk.columns) * side];
      large.getContext("2d")!.drawImage(image, left, top, side, side, 0, 0, side, side);
      large.setAttribute("aria-label", `patch ${desk.place(patch)}, enlarged: ${side} by ${side} pixels`);
      paint(mean, desk.row("features"));
      title.textContent = `Patch ${desk.place(patch)}: ${side} × ${side} pixels become ${names.length} numbers`;
      numbers.draw();
    },
  };
}

/** Its query, and the patches with the largest weights. */
export function attended(desk: ImageDesk): Piece {
  const query = line(desk, "queries", "Q", "its query: greener than red and blue; redder than green; and both again");
  const wide = desk.value("keys").shape.at(-1)!;
  const cells = Array.from({ length: MOST }, () => Array.from({ length: wide + 2 }, () => h("td.cell")));
  const names = cells.map(() => h("th", { scope: "row", role: "rowheader" }));
  const marks = cells.map(() => swatch([0, 0, 0]));
  let listed: number[] = [];
  const head = (text: string, span = 1) => h("th", { scope: "col", colspan: span, role: "columnheader" }, text);
  const table = h(
    "table.attended",
    { role: "grid", "aria-label": "the patches that it attends to most" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head("patch"), head("key K", wide), head("score S"), head("weight A"))), // prettier-ignore
    h("tbody", { role: "rowgroup" }, cells.map((line, r) => h("tr", { role: "row" }, names[r], line))), // prettier-ignore
  );
  const write = speaking(desk, table, cells, (r, c): Asked => {
    const patch = listed[r] ?? 0;
    if (c < wide) return { role: "keys", patch, column: c };
    return { role: c === wide ? "scores" : "weights", patch: desk.state.patch, column: patch };
  });
  const summary = h("p.quiet");
  return {
    element: h("div", query.element, h("h2", "Where it attends most"), h("div.scroll", table), summary),
    draw() {
      const weights = desk.row("weights");
      listed = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || a - b).slice(0, MOST); // prettier-ignore
      listed.forEach((patch, r) => {
        names[r].replaceChildren(marks[r], ` ${desk.place(patch)}`, h("span.quiet", ` ${desk.regionOf(patch)?.title ?? ""}`));
        paint(marks[r], desk.row("features", patch));
      });
      query.draw();
      write();
      const sum = listed.reduce((so, patch) => so + weights[patch], 0);
      summary.textContent = `These ${MOST} of ${desk.patches} patches have ${(sum * 100).toFixed(1)} % of its attention.`;
    },
  };
}

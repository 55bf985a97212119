// The same edges as a table: a row receives, a column sends. A cell is tinted by its weight; a click removes or adds the edge.
import { brief } from "../../core/labels";
import { h } from "../../core/dom";
import { number } from "../../core/format";
import { step } from "../../widgets/matrix";
import type { GraphDesk } from "./desk";

const WRITTEN = 6; // words up to which weights stand in the cells

export function adjacency(desk: GraphDesk): { element: HTMLElement; draw(): void } {
  const { nodes, words } = desk;
  const cells: HTMLElement[] = [];
  const name = (text: string) => h("bdi", brief(text, 0, 9));
  const heads = words.map(() => h("th", { scope: "col", role: "columnheader" }));
  const sides = words.map(() => h("th", { scope: "row", role: "rowheader" }));
  const lines = words.map((_, r) => {
    const line = h("tr", { role: "row" }, sides[r]);
    for (let c = 0; c < nodes; c++) {
      const cell = h("td", { role: "gridcell", tabindex: r + c ? -1 : 0, "data-r": r, "data-c": c });
      cells.push(cell);
      line.append(cell);
    }
    return line;
  });
  const grid = h(
    "table.adjacency",
    {
      role: "grid",
      "aria-label": "edges: a row receives, a column sends; Enter adds or removes one",
      "data-few": String(nodes <= WRITTEN),
    },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, h("td.corner", { role: "presentation" }), heads)),
    h("tbody", { role: "rowgroup" }, lines),
  );
  const element = h("figure.edges", h("figcaption.quiet", "The edges: a row receives, a column sends."), h("div.scroll", grid));

  const place = (cell: HTMLElement) => ({
    run: desk.run,
    id: desk.record.roles.weights,
    index: [Number(cell.dataset.r), Number(cell.dataset.c)],
  });
  const under = (event: Event) => (event.target as HTMLElement).closest<HTMLElement>("td[role=gridcell]");
  const toggle = (cell: HTMLElement) => {
    const [receives, sends] = place(cell).index.map((at) => desk.state.order[at]);
    if (desk.state.hidden.includes(receives) || desk.state.hidden.includes(sends)) return;
    desk.toggle(receives, sends);
  };
  grid.addEventListener("pointerover", (event) => {
    const cell = under(event);
    if (cell && event.pointerType !== "touch") desk.point(place(cell));
  });
  grid.addEventListener("pointerleave", () => desk.point(undefined));
  grid.addEventListener("click", (event) => {
    const cell = under(event);
    if (!cell) return;
    cell.focus();
    toggle(cell);
  });
  grid.addEventListener("focusin", (event) => {
    const cell = under(event);
    if (!cell) return;
    for (const other of cells) other.tabIndex = other === cell ? 0 : -1;
    desk.pin(place(cell));
  });
  grid.addEventListener("keydown", (event) => {
    const cell = under(event);
    if (!cell || event.ctrlKey || event.metaKey) return;
    const to = step(event.key, cells.indexOf(cell), nodes, cells.length);
    if (to !== undefined) cells[to].focus();
    else if (event.key === "Enter" || event.key === " " || event.key === "Delete") toggle(cell);
    else if (event.key === "Escape") desk.pin(undefined);
    else return;
    event.preventDefault();
  });

  desk.marks.add({
    get run() {
      return desk.run;
    },
    id: desk.record.roles.weights,
    light(places, style) {
      for (const old of grid.querySelectorAll(`.${style}`)) old.classList.remove(style);
      for (const { index } of places) cells[index[0] * nodes + index[1]]?.classList.add(style);
    },
  });

  function draw(): void {
    const { order, hidden, node, digits } = desk.state;
    const weights = desk.value("weights").data;
    order.forEach((word, at) => {
      for (const head of [heads[at], sides[at]]) {
        head.replaceChildren(name(words[word].text));
        head.title = words[word].text;
        head.dataset.colour = String(words[word].colour);
      }
      lines[at].classList.toggle("chosen", word === node);
    });
    cells.forEach((cell, i) => {
      const [receives, sends] = [order[Math.floor(i / nodes)], order[i % nodes]];
      const there = desk.there(receives, sends);
      const shut = hidden.includes(receives) || hidden.includes(sends);
      cell.style.setProperty("--share", weights[i].toFixed(3));
      cell.dataset.colour = String(words[sends].colour);
      cell.dataset.state = there ? "there" : shut ? "shut" : "away";
      cell.setAttribute("aria-selected", String(there));
      const text = there ? `weight ${number(weights[i], Math.max(2, digits))}` : shut ? "hidden" : "no edge";
      cell.setAttribute("aria-label", `${desk.arrow(sends, receives)}: ${text}`);
      const label = nodes <= WRITTEN ? (there ? number(weights[i], digits) : shut ? "" : "–") : "";
      if (cell.textContent !== label) cell.textContent = label;
    });
  }
  return { element, draw };
}

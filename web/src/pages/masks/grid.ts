// A grid of words by words: rows are queries, columns are keys. Mouse, touch and arrow keys choose a cell.
import { h } from "../../core/dom";
import { step } from "../../widgets/matrix";
import type { Name } from "../../core/names";

export interface Cell {
  text: string; // printed where cells are few
  share: number; // 0 to 1: the strength of the colour
  state: "attended" | "masked" | "blank" | "new" | "cached" | "evicted";
  spoken: string; // for a screen reader, where no text is printed
}

export interface Drawn {
  rows: Name[];
  columns: Name[];
  cell(row: number, column: number): Cell;
  after?(row: number): string; // the text at the end of a row
  row?: number; // a row that is lit
  chosen?: [number, number];
}

export interface GridView {
  element: HTMLElement;
  draw(drawn: Drawn): void;
  mark(cell: [number, number] | undefined): void;
}

const PRINTED = 8; // columns up to which numbers are printed

/** point: the cell under the mouse, undefined where it left; pick: the cell that a click, touch or key chose. */
export function grid(
  label: string,
  listener: { point(cell: [number, number] | undefined): void; pick(cell: [number, number]): void },
): GridView {
  const table = h("div.grid-of-words", { role: "grid", "aria-label": label });
  const element = h("div.field", h("div.scroll", table));
  let cells: HTMLElement[] = [];
  let ends: HTMLElement[] = [];
  let names: HTMLElement[] = [];
  let lines: HTMLElement[] = [];
  let wide = 0;
  let shape = "";

  const placeOf = (target: EventTarget | null): [number, number] | undefined => {
    const found = (target as HTMLElement | null)?.closest<HTMLElement>(".pair-cell");
    if (!found) return undefined;
    const i = cells.indexOf(found);
    return i < 0 ? undefined : [Math.floor(i / wide), i % wide];
  };
  table.addEventListener("pointerover", (event) => event.pointerType !== "touch" && listener.point(placeOf(event.target)));
  table.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && listener.point(undefined));
  table.addEventListener("click", (event) => {
    const cell = placeOf(event.target);
    if (cell) listener.pick(cell);
  });
  table.addEventListener("focusin", (event) => {
    const cell = placeOf(event.target);
    if (cell && (event.target as HTMLElement).matches(":focus-visible")) listener.pick(cell);
  });
  table.addEventListener("keydown", (event) => {
    const cell = placeOf(event.target);
    const to = cell && step(event.key, cell[0] * wide + cell[1], wide, cells.length);
    if (to === undefined) return;
    event.preventDefault();
    focusOn(to);
    listener.pick([Math.floor(to / wide), to % wide]);
  });

  function focusOn(i: number): void {
    tabTo(i);
    cells[i].focus();
  }

  function tabTo(i: number): void {
    cells.forEach((cell, k) => (cell.tabIndex = k === i ? 0 : -1));
  }

  function build(rows: number, columns: number): void {
    wide = columns;
    names = Array.from({ length: rows + columns }, (_, i) => h(i < rows ? "span.row-name" : "span.column-name", { role: i < rows ? "rowheader" : "columnheader" }, h("bdi"))); // prettier-ignore
    cells = Array.from({ length: rows * columns }, (_, i) => h("span.pair-cell", { role: "gridcell", tabindex: i ? -1 : 0 }));
    ends = Array.from({ length: rows }, () => h("span.row-end", { "aria-hidden": "true" }));
    lines = Array.from({ length: rows }, (_, r) =>
      h("div.words-row", { role: "row" }, names[r], cells.slice(r * columns, (r + 1) * columns), ends[r]),
    );
    table.replaceChildren(
      h("div.words-row.top-row", { role: "row" }, h("span.row-name", { role: "presentation" }), names.slice(rows)),
      ...lines,
    );
  }

  return {
    element,
    draw({ rows, columns, cell, after, row, chosen }) {
      if (shape !== `${rows.length} ${columns.length}`) build(rows.length, columns.length);
      shape = `${rows.length} ${columns.length}`;
      const longest = Math.max(...rows.map(({ text }) => [...text].length), 2);
      table.style.setProperty("--count", String(columns.length));
      table.style.setProperty("--letters", String(Math.min(longest, 11)));
      const tails = after ? rows.map((_, i) => [...after(i)].length) : [0];
      table.style.setProperty("--tail", String(Math.min(Math.max(...tails), 12)));
      table.classList.toggle("many", columns.length > PRINTED);
      table.classList.toggle("ended", !!after);
      [...rows, ...columns].forEach((name, i) => {
        const text = names[i].firstElementChild!;
        if (text.textContent !== name.text) text.textContent = name.text;
        names[i].dataset.colour = String(name.colour);
        names[i].title = name.text;
      });
      cells.forEach((element, i) => {
        const found = cell(Math.floor(i / wide), i % wide);
        const text = columns.length > PRINTED ? "" : found.text;
        if (element.textContent !== text) element.textContent = text;
        element.dataset.state = found.state;
        element.style.setProperty("--share", found.share.toFixed(3));
        if (text) element.removeAttribute("aria-label");
        else element.setAttribute("aria-label", found.spoken);
      });
      ends.forEach((end, r) => {
        const text = after?.(r) ?? "";
        if (end.textContent !== text) end.textContent = text;
        end.hidden = !after;
      });
      lines.forEach((line, r) => line.toggleAttribute("data-lit", r === row));
      const at = chosen && chosen[0] < rows.length && chosen[1] < columns.length ? chosen[0] * wide + chosen[1] : 0;
      if (!cells.includes(document.activeElement as HTMLElement)) tabTo(at);
      this.mark(chosen);
    },
    mark(cell) {
      cells.forEach((element, i) => {
        const [r, c] = [Math.floor(i / wide), i % wide];
        element.toggleAttribute("data-chosen", !!cell && r === cell[0] && c === cell[1]);
      });
      names.forEach((name, i) =>
        name.toggleAttribute("data-lit", !!cell && (i < lines.length ? i === cell[0] : i - lines.length === cell[1])),
      );
    },
  };
}

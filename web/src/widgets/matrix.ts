// A matrix, typeset: brackets, numbers in columns, each word with its colour. Up to a few hundred cells are text that can be
// focused; larger ones are drawn (heat.ts). Arrow keys move across cells, Enter edits a number that was given.
import { type Desk, type Mark, guarded, type Run } from "../core/desk";
import { h } from "../core/dom";
import { column, symbol } from "../core/format";
import { cellIndex, editKey, lead, type Name, slice, letters, value } from "../core/names";
import type { Place } from "../core/program";
import { matrixAt, type Tensor } from "../core/tensor";
import { differs } from "../core/measure";
import { flash, glide } from "./row_animation";
import { heat } from "./heat";

const CELLS = 420;
const COLUMNS = 24;
const ROWS = 16; // a longer table, of no words, is rolled up

/** names: what the token axis shows, where it is not the person's words in their order.
 * expected: other numbers of the same value; those that differ from them are marked. */
export interface Options {
  caption?: string;
  names?: () => Name[];
  expected?: () => Tensor | undefined;
}

/** A figure of one value of a run, with its symbol and label. */
export function matrix(app: Desk, run: () => Run, id: string, options: Options = {}): HTMLElement {
  const found = value(run(), id);
  const of = h("span");
  const figure = h(
    "figure.matrix",
    { "data-id": id, "data-symbol": letters(run(), id), "data-scheme": run().record.scheme },
    h("figcaption", symbol(letters(run(), id)), h("span.label", options.caption ?? found.label ?? "", of)),
  );
  let current: View | undefined;
  guarded(app, figure, () => {
    view().draw();
    const now = slice(app, found.axes, run().program.get(id).shape);
    if (of.textContent !== now) of.textContent = now;
  });
  return figure;

  function view(): View {
    const tensor = run().program.get(id);
    const [rows, columns] = [tensor.shape.at(-2) ?? 1, tensor.shape.at(-1) ?? 1];
    if (current?.rows === rows && current.columns === columns) return current;
    current?.body.remove();
    current =
      rows * columns <= CELLS && columns <= COLUMNS
        ? typeset(app, run, id, rows, columns, options)
        : heat(app, run, id, rows, columns, options);
    figure.append(current.body);
    figure.classList.toggle("long", rows > ROWS && found.axes.at(-2) !== "token");
    app.marks.add(current.mark);
    return current;
  }
}

/** The common interface of matrix and heat: a body that can be redrawn. */
export interface View {
  rows: number;
  columns: number;
  body: HTMLElement;
  mark: Mark;
  draw(): void;
}

/** What a view needs to know of its value at this moment. */
export function seen(
  app: Desk,
  run: Run,
  id: string,
  options: Options,
): { tensor: Tensor; flat: Tensor; ahead: number[]; rows?: Name[]; columns?: Name[] } {
  const tensor = run.program.get(id);
  const { axes } = value(run, id);
  const ahead = lead(app, axes, tensor.shape);
  const names = (axis: number) =>
    (axes.at(axis) === "token" && options.names?.()) || app.names(axes.at(axis) ?? "", tensor.shape.at(axis) ?? 1);
  return { tensor, flat: matrixAt(tensor, ahead), ahead, rows: axes.length > 1 ? names(-2) : undefined, columns: names(-1) };
}

function typeset(app: Desk, run: () => Run, id: string, rows: number, columns: number, options: Options): View {
  const cells: HTMLElement[] = [];
  const lines: HTMLElement[] = [];
  const heads: HTMLElement[] = Array.from({ length: columns }, () => h("span.colname"));
  const names: HTMLElement[] = [];
  const grid = h("div.grid", { role: "grid", "aria-rowcount": rows, "aria-colcount": columns });
  grid.append(h("i.bracket.left", { "aria-hidden": "true" }), h("i.bracket.right", { "aria-hidden": "true" }));
  const top = h("div.colnames", { "aria-hidden": "true" }, heads);
  for (let r = 0; r < rows; r++) {
    const label = h("span.rowname", { role: "rowheader" });
    const line = h("div.line", { role: "row" }, label);
    for (let c = 0; c < columns; c++) {
      const cell = h("span.cell", { role: "gridcell", tabindex: r + c === 0 ? 0 : -1, "data-r": r, "data-c": c });
      cells.push(cell);
      line.append(cell);
    }
    names.push(label);
    lines.push(line);
    grid.append(line);
  }
  const body = h("div.body", top, h("div.bracketed", grid));
  listen(app, run, id, grid, columns, cells, options);

  const mark: Mark = {
    get run() {
      return run();
    },
    id,
    light(places, style) {
      for (const old of grid.querySelectorAll(`.${style}`)) old.classList.remove(style);
      if (!places.length) return;
      const { tensor, ahead } = seen(app, run(), id, options);
      for (const place of places) {
        const at = cellOf(place, tensor.shape.length, ahead);
        if (at) cells[at[0] * columns + at[1]]?.classList.add(style);
      }
      if (style === "operand") unroll(grid);
    },
  };

  let keys: string[] = [];
  let wide = 2.5; // rem
  const [texts, shares]: string[][] = [[], []]; // as drawn last: reading them from the page is slow
  function draw(): void {
    const now = seen(app, run(), id, options);
    const write = column(now.flat.data, app.state.digits);
    const largest = biggest(now.flat.data);
    const key = editKey(run(), id);
    grid.setAttribute("aria-label", `${letters(run(), id)}, ${value(run(), id).label}, ${rows} by ${columns}`);
    grid.classList.toggle("given", !!key);
    top.hidden = !now.columns;
    now.columns?.forEach((name, c) => paint(heads[c], name));
    lines.forEach((line, r) => {
      const name = now.rows?.[r];
      names[r].hidden = !name;
      if (name) paint(names[r], name);
      line.dataset.word = name ? `${name.text}/${name.colour}` : "";
      line.dataset.colour = String(name?.colour ?? -1);
    });
    for (let i = 0; i < cells.length; i++) {
      const number = now.flat.data[i];
      const text = write(number);
      if (texts[i] !== text) cells[i].textContent = texts[i] = text;
      const share = largest && Number.isFinite(number) ? (number / largest).toFixed(3) : "0";
      if (shares[i] === share) continue;
      shares[i] = share;
      cells[i].style.setProperty("--share", share.replace("-", ""));
      cells[i].classList.toggle("negative", share.startsWith("-"));
    }
    measure(now);
    const order = app.state.order.map(String);
    const reordered = keys.length > 0 && order.join() !== keys.join();
    if (now.rows && !options.names && reordered) glide(lines, keys, order, rows - order.length);
    const different = compared(now, largest, write);
    if (reordered) flash(different);
    keys = order;
  }
  /** Mark the numbers that differ from the expected ones, by sign and outline. */
  function compared(now: ReturnType<typeof seen>, largest: number, write: (value: number) => string): HTMLElement[] {
    if (!options.expected) return [];
    const whole = options.expected();
    const wanted = whole && matrixAt(whole, now.ahead).data;
    return cells.filter((cell, i) => {
      const different = !!wanted && differs(now.flat.data[i], wanted[i], largest);
      cell.classList.toggle("changed", different);
      if (different) {
        cell.title = `changed: an equivariant layer gives ${write(wanted[i])}`;
        cell.setAttribute("aria-label", `${texts[i]}, changed, not ${write(wanted[i])}`);
      } else if (cell.title) {
        cell.removeAttribute("title");
        cell.removeAttribute("aria-label");
      }
      return different;
    });
  }
  /** Columns as wide as their longest number (they only grow, so that nothing trembles), labels as their longest word. */
  function measure(now: ReturnType<typeof seen>): void {
    const longest = (texts: (string | null)[]) => Math.max(0, ...texts.map((text) => text?.length ?? 0));
    wide = Math.max(wide, longest(texts) * 0.53 + 0.95);
    const names = Math.min(longest(now.columns?.map((n) => n.text) ?? []), columns > 8 ? 6 : 9);
    body.style.setProperty("--cell", `${Math.max(wide, names * 0.48 + 0.8).toFixed(2)}rem`);
    body.classList.toggle("bare", !now.rows);
    body.style.setProperty("--labels", now.rows ? `${Math.min(longest(now.rows.map((n) => n.text)), 11) * 0.54 + 0.8}rem` : "0rem");
  }
  return { rows, columns, body, mark, draw };
}

/** Roll a long table to the first number that lights up. */
function unroll(grid: HTMLElement): void {
  const figure = grid.closest("figure.long");
  const cell = figure && grid.querySelector(".operand");
  if (cell) figure.scrollTop += cell.getBoundingClientRect().top - figure.getBoundingClientRect().top - figure.clientHeight / 2;
}

function paint(element: HTMLElement, name: Name): void {
  if (element.textContent !== name.text) element.textContent = name.text;
  element.title = name.text;
  element.dataset.colour = String(name.colour);
}

function biggest(data: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < data.length; i++) if (Number.isFinite(data[i]) && Math.abs(data[i]) > largest) largest = Math.abs(data[i]);
  return largest;
}

/** Row and column on screen of an index, if its leading axes are the ones shown. */
export function cellOf(place: Place, rank: number, ahead: number[]): [number, number] | undefined {
  if (rank < 2) return [0, place.index.at(-1) ?? 0];
  return ahead.every((i, axis) => place.index[axis] === i) ? [place.index.at(-2)!, place.index.at(-1)!] : undefined;
}

function listen(
  app: Desk,
  run: () => Run,
  id: string,
  grid: HTMLElement,
  columns: number,
  cells: HTMLElement[],
  options: Options,
): void {
  const target = (event: Event) => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>(".cell");
    if (!cell) return undefined;
    const now = run();
    const tensor = now.program.get(id);
    const ahead = lead(app, value(now, id).axes, tensor.shape);
    return {
      run: now,
      id,
      index: cellIndex(tensor.shape.length, ahead, Number(cell.dataset.r), Number(cell.dataset.c)),
      names: options.names?.(),
    };
  };
  grid.addEventListener("pointerover", (event) => event.pointerType !== "touch" && app.point(target(event)));
  grid.addEventListener("pointerleave", () => app.point(undefined));
  grid.addEventListener("click", (event) => app.pin(target(event)));
  grid.addEventListener("dblclick", (event) => edit(target(event)));
  grid.addEventListener("focusin", (event) => {
    const cell = event.target as HTMLElement;
    for (const other of cells) other.tabIndex = other === cell ? 0 : -1;
    app.pin(target(event));
  });
  grid.addEventListener("keydown", (event) => {
    const at = cells.indexOf(event.target as HTMLElement);
    if (at < 0) return;
    const to = step(event.key, at, columns, cells.length);
    if (to !== undefined) {
      cells[to].focus();
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === "F2" || /^[-\d.]$/.test(event.key)) {
      if (edit(target(event), /^[-\d.]$/.test(event.key) ? event.key : undefined)) event.preventDefault();
    } else if (event.key === "Escape") app.pin(undefined);
  });

  function edit(at: ReturnType<typeof target>, begin?: string): boolean {
    if (!at || !editKey(at.run, at.id)) return false;
    app.pin(at);
    grid.dispatchEvent(new CustomEvent("edit-number", { bubbles: true, detail: { begin } }));
    return true;
  }
}

/** Where a key leads from a cell, or nothing. */
export function step(key: string, at: number, columns: number, count: number): number | undefined {
  const column = at % columns;
  const to = {
    ArrowLeft: column ? at - 1 : at,
    ArrowRight: column < columns - 1 ? at + 1 : at,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    Home: at - column,
    End: at - column + columns - 1,
    PageUp: column,
    PageDown: count - columns + column,
  }[key];
  if (to === undefined) return undefined;
  return to < 0 || to >= count ? at : to;
}

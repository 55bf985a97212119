// A grid of numbers, one square each: click, arrow keys or touch select one; hovering only shows it.
import { h } from "../../core/dom";
import { type Colour, sized } from "../../charts/canvas";

export interface Field {
  rows: number;
  columns: number;
  last?: number; // the number of squares, if the last row is not full
  colour(i: number): Colour;
  chosen?: number;
  side: number; // of a square, at most, in pixels
  label: string;
}

export interface Listener {
  pick(i: number): void;
  point?(i: number | undefined): void;
}

export interface Cells {
  element: HTMLElement;
  draw(field: Field): void;
}

/** tag: of the element, e.g. "div.patch". */
export function cells(tag: string, listener: Listener): Cells {
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const frame = h("i.frame");
  const element = h(`${tag}.cells`, { tabindex: 0, role: "application" }, canvas, frame);
  let now: Field | undefined;
  const many = () => (now ? (now.last ?? now.rows * now.columns) : 0);
  const under = (event: MouseEvent) => {
    if (!now) return undefined;
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * now.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * now.rows);
    const i = row * now.columns + column;
    return row >= 0 && column >= 0 && column < now.columns && i < many() ? i : undefined;
  };
  element.addEventListener("click", (event) => {
    const i = under(event);
    if (i !== undefined) listener.pick(i);
  });
  if (listener.point) {
    element.addEventListener("pointermove", (event) => event.pointerType !== "touch" && listener.point!(under(event)));
    element.addEventListener("pointerleave", () => listener.point!(undefined));
  }
  element.addEventListener("keydown", (event) => {
    if (!now) return;
    const to = step(event.key, now.chosen ?? 0, now.columns, many());
    if (to === undefined) return;
    event.preventDefault();
    if (to !== now.chosen) listener.pick(to);
  });
  return {
    element,
    draw(field) {
      now = field;
      const { rows, columns, side } = field;
      element.setAttribute("aria-label", field.label);
      element.style.cssText = `width:min(100%, ${columns * side}px);aspect-ratio:${columns}/${rows}`;
      const image = new ImageData(columns, rows);
      for (let i = 0; i < many(); i++) image.data.set([...field.colour(i), 255], 4 * i);
      [canvas.width, canvas.height] = [columns, rows];
      canvas.getContext("2d")!.putImageData(image, 0, 0);
      const i = field.chosen;
      frame.hidden = i === undefined || i >= many();
      if (i !== undefined) frame.style.cssText = boxed(Math.floor(i / columns), i % columns, 1, 1, rows, columns);
    },
  };
}

/** CSS position of a box of cells, in percent of the grid. */
export const boxed = (row: number, column: number, high: number, wide: number, rows: number, columns: number): string =>
  `left:${(100 * column) / columns}%;top:${(100 * row) / rows}%;width:${(100 * wide) / columns}%;height:${(100 * high) / rows}%`;

/** The cell that a key moves to; undefined for another key. */
export function step(key: string, from: number, columns: number, many: number): number | undefined {
  if (key === "Home") return 0;
  if (key === "End") return many - 1;
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (by === undefined) return undefined;
  const to = from + by;
  return to >= 0 && to < many ? to : from;
}

/** Signed numbers as bars from a base line; one is selected. */
export interface Bars {
  element: HTMLElement;
  draw(shown: { values: ArrayLike<number>; base: number; chosen: number; label: string }): void;
}

export function bars(tag: string, listener: Listener, css: (name: string) => string): Bars {
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const element = h(`${tag}.bars-field`, { tabindex: 0, role: "application" }, canvas);
  const HIGH = 150;
  let now: { values: ArrayLike<number>; base: number; chosen: number; label: string } | undefined;
  const under = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left) / box.width) * (now?.values.length ?? 0));
    return now && i >= 0 && i < now.values.length ? i : undefined;
  };
  element.addEventListener("click", (event) => {
    const i = under(event);
    if (i !== undefined) listener.pick(i);
  });
  element.addEventListener("pointermove", (event) => event.pointerType !== "touch" && listener.point?.(under(event)));
  element.addEventListener("pointerleave", () => listener.point?.(undefined));
  element.addEventListener("keydown", (event) => {
    if (!now) return;
    const to = step(event.key, now.chosen, 1, now.values.length);
    if (to === undefined || event.key === "ArrowUp" || event.key === "ArrowDown") return;
    event.preventDefault();
    if (to !== now.chosen) listener.pick(to);
  });
  const draw = () => {
    const width = Math.floor(element.clientWidth);
    if (!now || !width) return;
    const { values, base, chosen } = now;
    element.setAttribute("aria-label", now.label);
    const context = sized(canvas, width, HIGH);
    let [low, high] = [base, base];
    for (let i = 0; i < values.length; i++) [low, high] = [Math.min(low, values[i]), Math.max(high, values[i])];
    const y = (value: number) => 4 + ((high - value) / (high - low || 1)) * (HIGH - 8);
    const wide = width / values.length;
    for (let i = 0; i < values.length; i++) {
      const [from, to] = [y(base), y(values[i])];
      context.fillStyle = css(i === chosen ? "--ink" : values[i] < base ? "--negative" : "--positive");
      const bar = Math.max(wide - (wide > 4 ? 1 : 0), 1);
      context.fillRect(i * wide, Math.min(from, to), i === chosen ? Math.max(bar, 2) : bar, Math.max(Math.abs(from - to), 1));
    }
    const x = chosen * wide;
    context.strokeStyle = css("--ink");
    context.strokeRect(Math.max(0.5, x - 0.5), 0.5, Math.max(wide, 3), HIGH - 1);
  };
  new ResizeObserver(draw).observe(element);
  return {
    element,
    draw(shown) {
      now = shown;
      draw();
    },
  };
}

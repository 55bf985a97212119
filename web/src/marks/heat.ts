// A large matrix as a picture: one rectangle a number, drawn on a canvas; pointing reads the number.
import type { App, Mark } from "../app";
import { h } from "../dom";
import { number } from "../format";
import type { Run } from "../lab";
import { cellIndex, symbolOf, value } from "../names";
import type { Place } from "../program";
import { cellOf, type Options, seen, step, type View } from "./matrix";

const WIDE = 360;

export function heat(app: App, run: () => Run, id: string, rows: number, columns: number, options: Options): View {
  const side = Math.max(3, Math.min(14, Math.floor(WIDE / Math.max(columns, rows))));
  const [width, height] = [columns * side, rows * side];
  const canvas = h<HTMLCanvasElement>("canvas.heat", {
    width,
    height,
    style: `width:${width}px;height:${height}px`,
    tabindex: 0,
    role: "img",
  });
  const body = h("div.body", h("div.bracketed", canvas));
  const lit: Record<string, [number, number][]> = { operand: [], target: [] };
  let cursor = 0;

  const place = (cell: number) => {
    const { tensor, ahead } = seen(app, run(), id, options);
    return {
      run: run(),
      id,
      index: cellIndex(tensor.shape.length, ahead, Math.floor(cell / columns), cell % columns),
      names: options.names?.(),
    };
  };
  const under = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const [c, r] = [
      Math.floor(((event.clientX - box.left) / box.width) * columns),
      Math.floor(((event.clientY - box.top) / box.height) * rows),
    ];
    return c >= 0 && r >= 0 && c < columns && r < rows ? r * columns + c : undefined;
  };
  const pin = (cell: number) => {
    cursor = cell;
    app.pin(place(cell));
  };
  canvas.addEventListener("pointermove", (event) => {
    const cell = under(event);
    if (cell !== undefined && event.pointerType !== "touch") app.point(place(cell));
  });
  canvas.addEventListener("pointerleave", () => app.point(undefined));
  canvas.addEventListener("click", (event) => {
    const cell = under(event);
    if (cell !== undefined) pin(cell);
  });
  canvas.addEventListener("focus", () => pin(cursor));
  canvas.addEventListener("keydown", (event) => {
    const to = step(event.key, cursor, columns, rows * columns);
    if (to !== undefined) pin(to);
    else if (event.key === "Enter") canvas.dispatchEvent(new CustomEvent("edit-number", { bubbles: true, detail: {} }));
    else return;
    event.preventDefault();
  });

  const mark: Mark = {
    get run() {
      return run();
    },
    id,
    light(places: Place[], style) {
      const before = lit[style].length;
      const { tensor, ahead } = seen(app, run(), id, options);
      lit[style] = places.map((p) => cellOf(p, tensor.shape.length, ahead)).filter((p) => p !== undefined);
      if (before || lit[style].length) draw();
    },
  };

  function draw(): void {
    const { flat } = seen(app, run(), id, options);
    const context = canvas.getContext("2d")!;
    const style = getComputedStyle(document.documentElement);
    const [positive, negative, ink] = ["--positive", "--negative", "--ink"].map(
      (name) => style.getPropertyValue(name).trim() || "#888",
    );
    context.clearRect(0, 0, width, height);
    let largest = 0;
    for (const v of flat.data) if (Number.isFinite(v)) largest = Math.max(largest, Math.abs(v));
    for (let i = 0; i < flat.data.length; i++) {
      const v = flat.data[i];
      if (!Number.isFinite(v) || v === 0) continue;
      context.globalAlpha = Math.min(1, Math.abs(v) / (largest || 1));
      context.fillStyle = v > 0 ? positive : negative;
      context.fillRect((i % columns) * side, Math.floor(i / columns) * side, side, side);
    }
    context.globalAlpha = 1;
    context.strokeStyle = ink;
    for (const [kind, thick] of [
      ["operand", 1],
      ["target", 2],
    ] as const) {
      context.lineWidth = thick;
      for (const [r, c] of lit[kind]) context.strokeRect(c * side + 0.5, r * side + 0.5, side - 1, side - 1);
    }
    canvas.setAttribute(
      "aria-label",
      `${symbolOf(value(run(), id))}, ${value(run(), id).label}, ${rows} by ${columns}, largest ${number(largest, 2)}. Arrow keys read its numbers.`,
    );
  }
  return { rows, columns, body, mark, draw };
}

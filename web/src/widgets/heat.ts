// A large matrix as a picture: one rectangle per number on a canvas; hovering shows the number.
import type { Desk, Mark, Run } from "../core/desk";
import { h } from "../core/dom";
import { number } from "../core/format";
import { cellIndex, letters, value } from "../core/names";
import type { Place } from "../core/program";
import { differs } from "../core/measure";
import { matrixAt } from "../core/tensor";
import { cellOf, type Options, seen, step, type View } from "./matrix";

const WIDE = 360;

export function heat(app: Desk, run: () => Run, id: string, rows: number, columns: number, options: Options): View {
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

  /** The cells that differ from the expected numbers. */
  function changed(): [number, number][] {
    const whole = options.expected?.();
    if (!whole) return [];
    const { flat, ahead } = seen(app, run(), id, options);
    const wanted = matrixAt(whole, ahead).data;
    return [...flat.data.keys()]
      .filter((i) => differs(flat.data[i], wanted[i], largest))
      .map((i) => [Math.floor(i / columns), i % columns]);
  }

  /** Frames around cells, each with a stroke through it; painted once, as the numbers are. */
  function framed(places: [number, number][]): HTMLCanvasElement | undefined {
    if (!places.length) return undefined;
    const over = h<HTMLCanvasElement>("canvas", { width, height });
    const context = over.getContext("2d")!;
    context.strokeStyle = colour("--bad");
    for (const [r, c] of places) {
      const [x, y] = [c * side, r * side];
      context.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
      context.beginPath();
      context.moveTo(x + 1, y + side - 1);
      context.lineTo(x + side - 1, y + 1);
      context.stroke();
    }
    return over;
  }

  // The numbers are painted once, one pixel a number, and again only when they change; pointing draws frames over them.
  const pixels = h<HTMLCanvasElement>("canvas", { width: columns, height: rows });
  let [painted, largest] = ["", 0];
  let shown: Float64Array | undefined;
  let marked: HTMLCanvasElement | undefined;

  function draw(): void {
    const { tensor, flat, ahead } = seen(app, run(), id, options);
    const colours = ["--positive", "--negative"].map(colour);
    const now = [...ahead, ...colours].join();
    if (tensor.data !== shown || now !== painted) {
      [shown, painted, largest] = [tensor.data, now, fill(pixels, flat.data, colours.map(rgb))];
      marked = framed(changed());
      const { label } = value(run(), id);
      canvas.setAttribute(
        "aria-label",
        `${letters(run(), id)}, ${label}, ${rows} by ${columns}, largest ${number(largest, 2)}. Arrow keys read its numbers.`,
      );
    }
    const context = canvas.getContext("2d")!;
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels, 0, 0, width, height);
    if (marked) context.drawImage(marked, 0, 0);
    context.strokeStyle = colour("--ink");
    for (const [kind, thick] of [
      ["operand", 1],
      ["target", 2],
    ] as const) {
      context.lineWidth = thick;
      for (const [r, c] of lit[kind]) context.strokeRect(c * side + 0.5, r * side + 0.5, side - 1, side - 1);
    }
  }
  return { rows, columns, body, mark, draw };
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** "#1767b5" as three numbers. */
const rgb = (hex: string): number[] => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) || 0);

/** One pixel a number: its sign as a colour, its size as opacity. Returns the largest size. */
function fill(canvas: HTMLCanvasElement, numbers: Float64Array, [positive, negative]: number[][]): number {
  let largest = 0;
  for (const v of numbers) if (Number.isFinite(v)) largest = Math.max(largest, Math.abs(v));
  const image = new ImageData(canvas.width, canvas.height);
  numbers.forEach((v, i) => {
    const share = Number.isFinite(v) && largest ? Math.abs(v) / largest : 0;
    image.data.set([...(v > 0 ? positive : negative), Math.round(255 * share)], 4 * i);
  });
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return largest;
}

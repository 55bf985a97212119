// All weights of one head: rows are queries, columns are keys. Computed row by row in slices of time and painted on a canvas; where
// several weights share a pixel, it shows the largest. Pointing computes one row only.
import { h } from "../../core/dom";
import { shown as written } from "../../core/labels";
import type { View } from "./detail";
import { colour, css, fitted, pixel, pixels, sized, sliced } from "../../charts/canvas";
import { formatWeight } from "./rounded";

const [LARGE, POOL, NAMED, FONT] = [560, 512, 11, 11]; // pixels; cells a side; pixels of a cell that has a name; pixels

export interface MapListener {
  point(cell: [number, number] | undefined): void;
  pick(cell: [number, number]): void;
  done(): void; // all weights are computed
}

export interface AttentionMap {
  element: HTMLElement;
  draw(view: View, row: number, column: number): void;
  mark(row: number | undefined, column: number | undefined): void;
}

export function attentionMap(listener: MapListener): AttentionMap {
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const [across, down] = [h("i.across", { hidden: true }), h("i.down", { hidden: true })];
  const field = h("div.field", { tabindex: 0, role: "application" }, canvas, across, down);
  const caption = h("figcaption.quiet");
  const element = h("figure.map", field, caption);
  let view: View | undefined;
  let [row, column] = [0, 0];
  let stop: (() => void) | undefined;
  let pooled = maxPool(1, 1);
  let box = { left: 0, top: 0, width: 1, height: 1 };
  let painted = "";

  /** Compute from the first row on, and paint now and then. */
  function begin(): void {
    stop?.();
    const { now, before, signed } = view!;
    const { rows, columns } = now.given;
    pooled = maxPool(rows, columns);
    const [weights, others] = [new Float64Array(columns), new Float64Array(columns)];
    let n = 0;
    let at = 0;
    stop = sliced(
      () => {
        if (n >= rows) return false;
        now.row(n, weights);
        if (signed) {
          before.row(n, others);
          for (let m = 0; m < columns; m++) weights[m] -= others[m];
        }
        pooled.add(n++, weights);
        return n < rows;
      },
      () => {
        if (n < rows && performance.now() - at < 120) return; // painting must not cost more than computing
        at = performance.now();
        paint();
        if (n < rows) caption.textContent = `Computing: row ${n.toLocaleString("en")} of ${rows.toLocaleString("en")} …`;
        else {
          describe();
          listener.done();
        }
      },
    );
  }

  function describe(): void {
    const { signed, models } = view!;
    const { rows, columns, about } = view!.now.given;
    const more = models ? `more weight in ${models[0]} than in ${models[1]}` : "more weight than in the model";
    const shared = rows > POOL || columns > POOL ? " Where weights share a pixel, it shows the largest." : "";
    caption.textContent = signed
      ? `Blue: ${more}, orange: less; full colour is ${pooled.most().toPrecision(3)}.${shared}`
      : `Rows are queries, columns are keys. Full colour is the largest weight, ${about ? formatWeight(pooled.most(), about) : pooled.most().toPrecision(3)}; opacity is the square root of the weight.${shared}`;
  }

  function paint(): void {
    if (!view) return;
    const width = Math.floor(field.clientWidth);
    if (!width) return;
    const { asks, answers, signed } = view;
    const { rows, columns } = view.now.given;
    const wanted = (labels: string[], most: number) =>
      Math.min(most, 12 + FONT * 0.56 * Math.max(2, ...labels.slice(0, 200).map((one) => Math.min(14, one.length))));
    let [left, top] = [wanted(asks.labels, width * 0.28), wanted(answers.labels, 92)];
    const slant = Math.min(40, top * 0.5); // pixels that the last column's name leans over
    let side = Math.min((Math.min(width, LARGE + left) - left - slant) / columns, LARGE / rows, 44);
    if (side < NAMED) [left, top, side] = [0, 0, Math.min(Math.min(width, LARGE) / columns, LARGE / rows)];
    else side = Math.floor(side);
    box = { left, top, width: side * columns, height: Math.max(side * rows, rows === 1 ? 14 : 1) };
    const context = sized(canvas, left + box.width + (top ? slant : 0), top + box.height);
    context.fillStyle = css("--empty");
    context.fillRect(left, top, box.width, box.height);
    const image = pooled.image(colour(signed ? "--positive" : "--role"), colour("--negative"));
    context.imageSmoothingEnabled = image.width > box.width * 2;
    context.drawImage(image, left, top, box.width, box.height);
    if (view.links) rings(context, view.links);
    if (top) names(context, side);
    mark(row, column);
    field.setAttribute("aria-label", `weights, ${rows} by ${columns}: arrow keys choose a query and a key`);
  }

  /** A ring around one cell of each row. */
  function rings(context: CanvasRenderingContext2D, links: number[]): void {
    const [wide, high] = [box.width / view!.now.given.columns, box.height / view!.now.given.rows];
    context.strokeStyle = css("--ink");
    context.lineWidth = 1.5;
    links.forEach((m, n) => context.strokeRect(box.left + m * wide + 1.5, box.top + n * high + 1.5, wide - 3, high - 3));
  }

  function names(context: CanvasRenderingContext2D, side: number): void {
    const { asks, answers } = view!;
    const { rows, columns } = view!.now.given;
    context.font = `${FONT}px ${css("--sans")}`;
    context.fillStyle = css("--quiet");
    context.textBaseline = "middle";
    const cut = (label: string | undefined, at: number) => {
      const letters = Array.from(label === undefined ? String(at) : written(label).trim() || "␣");
      return letters.length > 14 ? `${letters.slice(0, 13).join("")}…` : letters.join("");
    };
    context.textAlign = "right";
    for (let n = 0; n < rows; n++) context.fillText(cut(asks.labels[n], n), box.left - 5, box.top + (n + 0.5) * side, box.left - 6);
    context.textAlign = "left";
    for (let m = 0; m < columns; m++) {
      context.save();
      context.translate(box.left + (m + 0.5) * side, box.top - 5);
      context.rotate(-Math.PI / 3);
      context.fillText(cut(answers.labels[m], m), 0, 0, box.top * 1.12);
      context.restore();
    }
  }

  function mark(n: number | undefined, m: number | undefined): void {
    if (!view) return;
    const { rows, columns } = view.now.given;
    const [wide, high] = [box.width / columns, box.height / rows];
    across.hidden = n === undefined;
    down.hidden = m === undefined;
    if (n !== undefined)
      across.style.cssText = `left:${box.left}px;width:${box.width}px;top:${box.top + n * high}px;height:${Math.max(high, 2)}px`;
    if (m !== undefined)
      down.style.cssText = `left:${box.left + m * wide}px;width:${Math.max(wide, 2)}px;top:${box.top}px;height:${box.height}px`;
  }

  const under = (event: MouseEvent): [number, number] | undefined => {
    if (!view) return undefined;
    const { rows, columns } = view.now.given;
    const at = canvas.getBoundingClientRect();
    const m = Math.floor(((event.clientX - at.left - box.left) / box.width) * columns);
    const n = Math.floor(((event.clientY - at.top - box.top) / box.height) * rows);
    return n >= 0 && m >= 0 && n < rows && m < columns ? [n, m] : undefined;
  };
  field.addEventListener("pointermove", (event) => event.pointerType !== "touch" && listener.point(under(event)));
  field.addEventListener("pointerleave", () => listener.point(undefined));
  field.addEventListener("click", (event) => {
    const cell = under(event);
    if (cell) listener.pick(cell);
  });
  field.addEventListener("keydown", (event) => {
    if (!view) return;
    const { rows, columns } = view.now.given;
    const to: Record<string, [number, number]> = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [row, 0],
      End: [row, columns - 1],
      PageUp: [0, column],
      PageDown: [rows - 1, column],
    };
    if (!to[event.key]) return;
    const [n, m] = to[event.key];
    listener.pick([Math.max(0, Math.min(rows - 1, n)), Math.max(0, Math.min(columns - 1, m))]);
    event.preventDefault();
  });
  fitted(field, paint);
  return {
    element,
    draw(next, n, m) {
      const fresh = next !== view;
      [view, row, column] = [next, n, m];
      const colours = `${css("--role")} ${css("--empty")}`;
      if (fresh) begin();
      if (fresh || colours !== painted) paint();
      painted = colours;
      mark(n, m);
    },
    mark,
  };
}

/** Max pooling to at most POOL by POOL cells, by absolute value. */
export function maxPool(rows: number, columns: number) {
  const [high, wide] = [Math.min(rows, POOL), Math.min(columns, POOL)];
  const cells = new Float32Array(high * wide);
  let image: HTMLCanvasElement | undefined;
  let most = 0;
  return {
    cells,
    most: () => most,
    add(n: number, weights: Float64Array): void {
      const start = Math.floor((n * high) / rows) * wide;
      for (let m = 0; m < columns; m++) {
        const at = start + (wide === columns ? m : Math.floor((m * wide) / columns));
        const [weight, size] = [weights[m], Math.abs(weights[m])];
        if (size > Math.abs(cells[at])) cells[at] = weight;
        if (size > most) most = size;
      }
    },
    image(more: [number, number, number], less: [number, number, number]): HTMLCanvasElement {
      image ??= pixels(wide, high);
      const data = new ImageData(wide, high);
      for (let i = 0; i < cells.length; i++) {
        const value = cells[i];
        if (value) pixel(data.data, i, value < 0 ? less : more, Math.sqrt(Math.abs(value) / most));
      }
      image.getContext("2d")!.putImageData(data, 0, 0);
      return image;
    },
  };
}

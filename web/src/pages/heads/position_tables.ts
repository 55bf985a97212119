// Learned position embeddings: the cosine similarity of rows by distance, the spectrum of the table, and whether it is close to
// shift-invariant.
import { band, bars, line, type Space } from "../../charts/marks";
import { still } from "../../charts/still";
import { digits } from "../../core/format";
import type { PositionTable } from "../../core/contract";
import { h } from "../../core/dom";
import { unpack } from "../../core/tensor";
import { colour, css, fitted, pixel, pixels, sized } from "../../charts/canvas";

const LARGE = 300;

export function positionTables(found: PositionTable[]): HTMLElement | undefined {
  if (!found.length) return undefined;
  return h(
    "section.part.position-tables",
    { "data-part": "position-tables" },
    h("h2", "Learned position embeddings"),
    found.map(table),
  );
}

/** How much of the cosines the distance explains, as one sentence. */
export function shiftSummary({ shift_invariance: share, grid }: Pick<PositionTable, "shift_invariance" | "grid">): string {
  const percent = `${(100 * share).toFixed(share > 0.995 ? 1 : 0)} %`;
  const means = grid?.length ? "The distance between two patches" : "The distance between two positions";
  if (share >= 0.9) return `${means} explains ${percent} of the variance of the cosines: the table is close to shift-invariant.`;
  if (share >= 0.5)
    return `${means} explains ${percent} of the variance of the cosines: the table encodes distance, and also absolute positions.`;
  return `${means} explains only ${percent} of the variance of the cosines: the table encodes absolute positions.`;
}

function table(found: PositionTable): HTMLElement {
  const { where, rows, width, grid } = found;
  const shape = grid?.length ? `${grid.join(" by ")} patches` : `${rows.toLocaleString("en")} positions`;
  return h(
    "div.learned",
    h("h3", h("code", where), h("span.quiet", ` ${shape}, width ${width}`)),
    h("p", shiftSummary(found)),
    h(
      "div.plots",
      cosines(found),
      curve(
        "Mean cosine by distance",
        found.distance,
        found.spread,
        grid?.length ? "distance in patches" : "distance in positions",
      ),
      found.spectrum.length > 0 &&
        spectrum("Share of the variance in each frequency", found.spectrum, "periods over the whole table"),
    ),
  );
}

/** Cosine similarity of rows as a picture: blue where positive, orange where negative. */
function cosines({ cosines: array, step, where }: PositionTable): HTMLElement {
  const { data, shape } = unpack(array);
  const side = shape[0];
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const reading = h("output.quiet", "Point at it, or use the arrow keys.");
  const field = h(
    "div.field",
    { tabindex: 0, role: "application", "aria-label": `cosines of ${where}: arrow keys read them` },
    canvas,
  );
  let cell: [number, number] = [0, 0];
  const draw = () => {
    const wide = Math.min(LARGE, field.clientWidth);
    if (!wide) return;
    const image = pixels(side, side);
    const painted = new ImageData(side, side);
    const [more, less] = [colour("--positive"), colour("--negative")];
    for (let i = 0; i < data.length; i++) pixel(painted.data, i, data[i] < 0 ? less : more, Math.min(1, Math.abs(data[i])));
    image.getContext("2d")!.putImageData(painted, 0, 0);
    const context = sized(canvas, wide, wide);
    context.fillStyle = css("--empty");
    context.fillRect(0, 0, wide, wide);
    context.imageSmoothingEnabled = side > wide;
    context.drawImage(image, 0, 0, wide, wide);
  };
  const read = (next: [number, number]) => {
    cell = next.map((i) => Math.max(0, Math.min(side - 1, i))) as [number, number];
    const [a, b] = cell;
    reading.textContent = `position ${a * step} with position ${b * step}: ${digits(data[a * side + b])}`;
  };
  field.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    read([
      Math.floor(((event.clientY - box.top) / box.height) * side),
      Math.floor(((event.clientX - box.left) / box.width) * side),
    ]);
  });
  field.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    read([cell[0] + by[0], cell[1] + by[1]]);
    event.preventDefault();
  });
  fitted(field, draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return h("figure", h("figcaption", "Cosine similarity of the rows"), field, reading);
}

/** A chart with a title above and one below. */
const plotted = (title: string, x: [number, number], y: [number, number], below: string, marks: (space: Space) => SVGElement[]): HTMLElement => // prettier-ignore
  h("figure", h("figcaption", title), still({ label: title, width: 340, height: 220, x: { title: below, range: x }, y: { range: y } }, marks)); // prettier-ignore

function curve(title: string, means: number[], spread: number[], below: string): HTMLElement {
  const around = means.map((mean, x) => ({ x, low: mean - (spread[x] ?? 0), high: mean + (spread[x] ?? 0) }));
  const [low, high] = [Math.min(0, ...around.map(({ low }) => low)), Math.max(1, ...around.map(({ high }) => high))];
  return plotted(title, [0, Math.max(1, means.length - 1)], [low, high], below, (space) => [
    band(space, around),
    line(space, means.map((mean, x) => [x, mean])), // prettier-ignore
  ]);
}

function spectrum(title: string, shares: number[], below: string): HTMLElement {
  const shown = shares.slice(0, 64);
  const words = shares.length > shown.length ? `${below}, the first ${shown.length}` : below;
  return plotted(title, [0.5, shown.length + 0.5], [0, Math.max(...shown) || 1], words, (space) => [
    bars(space, shown.map((share, i) => [i + 1, share])), // prettier-ignore
  ]);
}

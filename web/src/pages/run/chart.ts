// A chart: lines on a canvas at the resolution of the screen. The pointer or arrow keys choose a step; all charts mark the same one.
import { h } from "../../core/dom";
import { axis, type Axis, short } from "../../charts/axis";
import { below, type Line, nearest } from "./history";

export interface Curve extends Line {
  name: string;
  colour: string; // a name of a colour of the page: "--trained"
  kind: "raw" | "line" | "dots";
  best?: number; // index of the dot with a ring
  label?: boolean; // named at its end
}

export interface Plot {
  curves: Curve[];
  x: [number, number];
  log: boolean;
  low?: number; // the axis begins here or below
  across: (x: number) => string; // the label of an x tick
  marked?: number; // the x of the samples shown below
}

export interface Chart {
  element: HTMLElement;
  draw(plot: Plot, cursor: number | undefined): void;
}

export interface Choosing {
  label: string;
  places(): ArrayLike<number>; // the x that can be chosen
  choose(index: number | undefined): void;
  read(index: number): string;
  at(): number | undefined;
}

const [LEFT, RIGHT, TOP, BOTTOM] = [46, 14, 10, 24];

export function chart(height: number, choosing: Choosing): Chart {
  const canvas = h<HTMLCanvasElement>("canvas.chart", {
    tabindex: 0,
    role: "slider",
    "aria-label": choosing.label,
    "aria-valuemin": 0,
    style: `height:${height}px`,
  });
  let shown: { plot: Plot; cursor: number | undefined } | undefined;
  let [across, width]: [Axis | undefined, number] = [undefined, 0];

  const choose = (index: number | undefined) => choosing.choose(index);
  canvas.addEventListener("pointermove", (event) => {
    if (!shown || !across) return;
    const box = canvas.getBoundingClientRect();
    const [from, to] = shown.plot.x;
    const share = (event.clientX - box.left - LEFT) / Math.max(1, width - LEFT - RIGHT);
    const places = choosing.places();
    if (places.length) choose(nearest(places, from + Math.min(Math.max(share, 0), 1) * (to - from)));
  });
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && document.activeElement !== canvas) choose(undefined);
  });
  canvas.addEventListener("blur", () => choose(undefined));
  canvas.addEventListener("keydown", (event) => {
    const count = choosing.places().length;
    const now = choosing.at() ?? count - 1;
    const far = Math.max(1, Math.round(count / 20));
    const moves: Record<string, number> = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - far, PageUp: now + far, Home: 0, End: count - 1 }; // prettier-ignore
    if (event.key === "Escape") choose(undefined);
    else if (event.key in moves && count) choose(Math.min(Math.max(moves[event.key], 0), count - 1));
    else return;
    event.preventDefault();
  });

  const again = () => shown && draw(shown.plot, shown.cursor);
  new ResizeObserver(again).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

  function draw(plot: Plot, cursor: number | undefined): void {
    shown = { plot, cursor };
    width = canvas.clientWidth;
    if (!width) return;
    const dense = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * dense), Math.round(height * dense)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    const context = canvas.getContext("2d")!;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(canvas);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    across = axis(plot.x, [LEFT, width - RIGHT], Math.max(2, Math.floor(width / 90)));
    const up = axis(reach(plot), [height - BOTTOM, TOP], Math.max(3, Math.floor(height / 36)), plot.log);
    context.font = `11px ${style.fontFamily}`;
    frame(context, across, up, plot, colour, [width, height]);
    context.save();
    context.beginPath();
    context.rect(LEFT - 10, 0, width - LEFT - RIGHT + 20, height - BOTTOM + 8);
    context.clip();
    if (plot.marked !== undefined) {
      context.strokeStyle = colour("--marked");
      context.lineWidth = 1.5;
      context.setLineDash([3, 3]);
      stroke(context, [[across.place(plot.marked), TOP], [across.place(plot.marked), height - BOTTOM]]); // prettier-ignore
      context.setLineDash([]);
    }
    for (const curve of plot.curves) line(context, curve, across, up, colour);
    if (cursor !== undefined) hair(context, across.place(cursor), cursor, plot, up, colour, height);
    context.restore();
    labels(context, plot, across, up, colour, [width, height]);
    const places = choosing.places();
    const at = choosing.at();
    canvas.setAttribute("aria-valuemax", String(Math.max(places.length - 1, 0)));
    canvas.setAttribute("aria-valuenow", String(at ?? Math.max(places.length - 1, 0)));
    canvas.setAttribute("aria-valuetext", places.length ? choosing.read(at ?? places.length - 1) : "nothing yet");
  }
  return { element: canvas, draw };
}

/** The range of the drawn numbers, with a margin. */
export function reach({ curves, log, low }: Pick<Plot, "curves" | "log" | "low">): [number, number] {
  let [least, most] = [Infinity, -Infinity];
  for (const { y } of curves)
    for (let i = 0; i < y.length; i++) {
      const value = y[i];
      if (Number.isFinite(value) && (!log || value > 0)) [least, most] = [Math.min(least, value), Math.max(most, value)];
    }
  if (least > most) return log ? [1, 10] : [0, 1];
  if (low !== undefined && !log) least = Math.min(least, low);
  if (log) return least === most ? [least / 2, most * 2] : [least / (most / least) ** 0.03, most * (most / least) ** 0.03];
  const air = (most - least || Math.abs(most) || 1) * 0.04;
  return [low !== undefined && least >= low ? low : least - air, most + air];
}

/** At most two numbers for each column of pixels, the smallest and the largest, so that no peak is lost. */
export function thinned({ x, y }: Line, place: (x: number) => number): [number, number][] {
  const out: [number, number][] = [];
  let i = 0;
  while (i < x.length) {
    const column = Math.floor(place(x[i]));
    let [low, high] = [-1, -1];
    for (; i < x.length && Math.floor(place(x[i])) === column; i++) {
      if (!Number.isFinite(y[i])) continue;
      if (low < 0 || y[i] < y[low]) low = i;
      if (high < 0 || y[i] > y[high]) high = i;
    }
    for (const j of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) if (j >= 0) out.push([x[j], y[j]]);
  }
  return out;
}

function stroke(context: CanvasRenderingContext2D, points: [number, number][]): void {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}

type Colour = (name: string) => string;

function frame(
  context: CanvasRenderingContext2D,
  across: Axis,
  up: Axis,
  plot: Plot,
  colour: Colour,
  [width, height]: [number, number],
): void {
  // prettier-ignore
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of up.ticks) {
    const y = Math.round(up.place(tick)) + 0.5;
    context.strokeStyle = colour("--rule");
    stroke(context, [[LEFT, y], [width - RIGHT, y]]); // prettier-ignore
    context.fillStyle = colour("--quiet");
    context.fillText(up.text(tick), LEFT - 8, y);
  }
  context.textBaseline = "top";
  for (const tick of across.ticks) {
    const x = across.place(tick);
    const text = plot.across(tick);
    const half = context.measureText(text).width / 2;
    context.textAlign = x + half > width - 2 ? "right" : "center";
    context.fillText(text, context.textAlign === "right" ? width - 2 : x, height - BOTTOM + 8);
  }
}

function line(context: CanvasRenderingContext2D, curve: Curve, across: Axis, up: Axis, colour: Colour): void {
  const points =
    (curve.kind === "dots" ? Array.from(curve.x, (x, i) => [x, curve.y[i]] as [number, number]) : thinned(curve, across.place)) // prettier-ignore
      .map(([x, y]) => [across.place(x), up.place(y)] as [number, number])
      .filter(([, y]) => Number.isFinite(y));
  context.lineJoin = "round";
  context.strokeStyle = colour(curve.colour);
  context.globalAlpha = curve.kind === "raw" ? 0.28 : 1;
  context.lineWidth = curve.kind === "raw" ? 1 : 2;
  stroke(context, points);
  context.globalAlpha = 1;
  if (curve.kind !== "dots") {
    if (points.length === 1) dot(context, points[0], 2.5, colour(curve.colour));
    return;
  }
  const small = points.length > 60 ? 2 : 3.5;
  points.forEach((point, i) => {
    dot(context, point, small, colour(curve.colour));
    if (i !== curve.best) return;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(...point, 7, 0, 2 * Math.PI);
    context.stroke();
  });
}

function dot(context: CanvasRenderingContext2D, [x, y]: [number, number], radius: number, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function hair(
  context: CanvasRenderingContext2D,
  x: number,
  cursor: number,
  plot: Plot,
  up: Axis,
  colour: Colour,
  height: number,
): void {
  // prettier-ignore
  context.strokeStyle = colour("--ink");
  context.lineWidth = 1;
  stroke(context, [[Math.round(x) + 0.5, TOP - 6], [Math.round(x) + 0.5, height - BOTTOM]]); // prettier-ignore
  for (const curve of plot.curves) {
    const at = below(curve.x, cursor);
    if (at < 0 || curve.kind === "raw" || (curve.kind === "dots" && curve.x[at] !== cursor)) continue;
    const y = up.place(curve.y[at]);
    if (!Number.isFinite(y)) continue;
    dot(context, [x, y], 5, colour("--card"));
    dot(context, [x, y], 3.5, colour(curve.colour));
  }
}

/** The names of the curves at their ends, moved apart. */
function labels(
  context: CanvasRenderingContext2D,
  plot: Plot,
  across: Axis,
  up: Axis,
  colour: Colour,
  [width, height]: [number, number],
): void {
  // prettier-ignore
  const named = plot.curves
    .filter(({ label, x }) => label && x.length)
    .map((curve) => ({ curve, y: up.place(curve.y[curve.y.length - 1]), x: across.place(curve.x[curve.x.length - 1]) }))
    .filter(({ y }) => Number.isFinite(y))
    .sort((a, b) => a.y - b.y);
  context.font = context.font.replace("11px", "600 12px");
  named.forEach(({ curve, x, y }, i) => {
    const text = `${curve.name} ${short(curve.y[curve.y.length - 1])}`;
    const wide = context.measureText(text).width;
    const right = Math.min(Math.max(x, LEFT + wide + 4), width - RIGHT);
    const under = i > 0 && i === named.length - 1 && y + 24 < height - BOTTOM; // the lowest label stands under its curve, the others above theirs
    const at = under ? y + 9 : y - 9;
    context.textBaseline = under ? "top" : "bottom";
    context.textAlign = "right";
    context.strokeStyle = colour("--card");
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(text, right, at);
    context.fillStyle = colour(curve.colour);
    context.fillText(text, right, at);
  });
}

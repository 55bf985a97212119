// Marks of a chart, on d3-shape: lines, bands, whiskers, bars. Each stands in a space, which is two scales and a box.
import { area, line as pathOf } from "d3-shape";
import { svg } from "../core/dom";
import type { Scale } from "./scale";

export type Point = [number, number];

export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Space {
  x: Scale;
  y: Scale;
  box: Box;
}

/** The digits of a pixel. */
export const n = (value: number): string => value.toFixed(1);

/** Where a point stands, in pixels. */
export const at = ({ x, y }: Space, [a, b]: Point): Point => [x.place(a), y.place(b)];

/** A line through points; it breaks where one is not finite. */
export const line = (space: Space, points: Point[], tag = "path.thick", more: Record<string, unknown> = {}): SVGElement =>
  svg(tag, { d: pathOf().defined(([, y]) => Number.isFinite(y)).digits(1)(thinned(points.map((point) => at(space, point)))), ...more }); // prettier-ignore

/** A band from low to high numbers. */
export const band = ({ x, y }: Space, spread: { x: number; low: number; high: number }[]): SVGElement =>
  svg("path.band", { d: area<(typeof spread)[number]>((one) => x.place(one.x), (one) => y.place(one.low), (one) => y.place(one.high)).digits(1)(spread) }); // prettier-ignore

/** Bars from 0 up, each as wide as a part of the way to the next. */
export function bars({ x, y }: Space, points: Point[], part = 0.8): SVGElement {
  const wide = Math.max(0.8, Math.abs(x.place(1) - x.place(0)) * part);
  const bar = ([a, b]: Point) => `M${n(x.place(a) - wide / 2)} ${n(y.place(0))}h${n(wide)}V${n(y.place(b))}h${n(-wide)}z`;
  return svg("path.bars", { d: points.map(bar).join("") });
}

/** A dot at a point. */
export function dot(space: Space, point: Point, r: number, tag = "circle.dot", more: Record<string, unknown> = {}): SVGElement {
  const [cx, cy] = at(space, point).map(n);
  return svg(tag, { cx, cy, r, ...more });
}

/** A line from one point to another. */
export const segment = (tag: string, [x1, y1]: Point, [x2, y2]: Point, more: Record<string, unknown> = {}): SVGElement =>
  svg(tag, { x1: n(x1), x2: n(x2), y1: n(y1), y2: n(y2), ...more });

/** At most two points for each column of pixels, the lowest and the highest, so that no peak is lost. */
export function thinned(points: Point[]): Point[] {
  const out: Point[] = [];
  for (let i = 0; i < points.length;) {
    const column = Math.floor(points[i][0]);
    const first = i;
    let [low, high] = [-1, -1];
    for (; i < points.length && Math.floor(points[i][0]) === column; i++) {
      if (!Number.isFinite(points[i][1])) continue;
      if (low < 0 || points[i][1] < points[low][1]) low = i;
      if (high < 0 || points[i][1] > points[high][1]) high = i;
    }
    if (i - first < 3) out.push(...points.slice(first, i));
    else for (const j of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) if (j >= 0) out.push(points[j]);
  }
  return out;
}

/** The axes of a space, with their titles. width: of the whole picture. */
export function axes({ x, y, box }: Space, titles: { x?: string; y?: string }, width: number): SVGElement[] {
  const tick = (px: number, py: number, anchor: string, text: string, more = {}) => svg("text.tick", { x: n(px), y: n(py), "text-anchor": anchor, ...more }, text); // prettier-ignore
  const [below, wide] = [titles.x ?? "", titles.x ? titles.x.length * 7.2 : 0];
  return [
    ...(titles.y ? [svg("text.titled", { x: 0, y: 12 }, shortened(titles.y, width))] : []),
    ...y.ticks.flatMap((value) => [
      segment("line.rule", [box.left, y.place(value)], [box.right, y.place(value)]),
      tick(box.left - 8, y.place(value), "end", y.text(value), { dy: "0.35em" }),
    ]),
    segment("line.base", [box.left, box.bottom], [box.right, box.bottom]),
    ...x.ticks.flatMap((value) => [
      segment("line.notch", [x.place(value), box.bottom], [x.place(value), box.bottom + 5]),
      tick(x.place(value), box.bottom + 18, "middle", x.text(value)),
    ]),
    ...(below ? [svg("text.titled", { x: n(Math.max(box.right, Math.min(wide, width))), y: box.bottom + 37, "text-anchor": "end" }, shortened(below, width))] : []), // prettier-ignore
  ];
}

export const LETTER = 6.7; // pixels of a letter of a name

/** A name shortened to fit into `room` pixels. */
export function shortened(name: string, room: number): string {
  const most = Math.max(Math.floor(room / LETTER), 3);
  return name.length <= most ? name : `${name.slice(0, most - 1).trimEnd()}…`;
}

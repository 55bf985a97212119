// A chart that is only looked at: axes, and marks in their space.
import { svg } from "../core/dom";
import { axes, type Space } from "./marks";
import { scale, type ScaleOptions } from "./scale";
import "./charts.css";

interface StillOptions {
  label: string; // for a screen reader
  width: number;
  height: number;
  left?: number; // pixels of the numbers beside the y axis
  x: ScaleOptions & { range: [number, number] };
  y: ScaleOptions & { range: [number, number] };
}

export function still({ label, width, height, left = 50, x, y }: StillOptions, marks: (space: Space) => SVGElement[]): SVGElement {
  const box = { left, right: width - 10, top: 10, bottom: height - 44 };
  const space = { x: scale(x.range, [box.left, box.right], 5, x), y: scale(y.range, [box.bottom, box.top], 4, y), box };
  return svg(
    "svg.plot",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    axes(space, { x: x.title }, width),
    marks(space),
  );
}

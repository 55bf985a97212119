// The errors of all samples as dots on a logarithmic axis, with the rounding floor and the tolerance.
import { percent, rules, upright } from "../../charts/column";
import type { Row } from "../../core/contract";
import { svg } from "../../core/dom";
import { error, scientific } from "../../core/format";
import { errorScale, share } from "./scale";

const [HEIGHT, GAP, LANES] = [34, 2.2, 5]; // pixels; percent of the width within which two dots would touch; rows of dots

/** The lane of each dot, so that neighbours do not overlap: the worst in the middle, others above and below. */
export function lanes(at: number[]): number[] {
  const ends = new Array<number>(LANES).fill(Infinity);
  const taken = new Array<number>(at.length).fill(0);
  const inOrder = at.map((x, i) => [x, i]).sort((a, b) => b[0] - a[0]);
  for (const [x, i] of inOrder) {
    const free = ends.findIndex((end) => end - x >= GAP);
    const lane = free < 0 ? ends.indexOf(Math.max(...ends)) : free;
    ends[lane] = x;
    taken[i] = lane;
  }
  return taken;
}

const height = (lane: number): number => HEIGHT / 2 + (lane % 2 ? -1 : 1) * Math.ceil(lane / 2) * 5;

export function errors(row: Row, tolerance: number): SVGElement {
  const found = (row.errors ?? []).length ? row.errors! : row.error === null || row.error === undefined ? [] : [row.error];
  const at = found.map(errorScale.place);
  const lane = lanes(at);
  const worst = found.findIndex((e) => e < 0) >= 0 ? found.findIndex((e) => e < 0) : found.indexOf(Math.max(...found));
  return svg(
    "svg.errors",
    { width: "100%", height: HEIGHT, role: "img", "aria-label": spoken(row, found, tolerance) },
    row.floor ? svg("rect.floor", { x: 0, y: 0, height: HEIGHT, width: percent(errorScale.place(row.floor)) }) : null,
    rules(errorScale),
    row.floor ? upright("line.floor", errorScale, row.floor) : null,
    at.length ? upright("line.tolerance", errorScale, tolerance) : null,
    at.map((x, i) =>
      svg(i === worst ? "circle.worst" : "circle", { cx: percent(x), cy: height(lane[i]), r: i === worst ? 4.5 : 3 }),
    ),
  );
}

export function spoken(row: Row, found: number[], tolerance: number): string {
  if (!found.length) return "nothing was measured";
  const endless = found.filter((e) => e < 0).length;
  const [least, most] = [Math.min(...found.filter((e) => e >= 0)), Math.max(...found)];
  const range = least === most ? `at ${error(most)}` : `from ${error(least)} to ${error(most)}`;
  return [
    `${found.length} error${found.length > 1 ? "s" : ""}${endless < found.length ? ` ${range}` : ""}`,
    ...(endless ? [`${endless} not finite`] : []),
    ...(row.floor ? [`rounding floor ${scientific(row.floor)}`] : []),
    `approximate below ${share(tolerance)}`,
  ].join("; ");
}

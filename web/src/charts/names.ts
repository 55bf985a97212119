// The names of series on a chart: at the ends of lines, or beside dots.
import { svg } from "../core/dom";
import { ink, marker } from "./markers";
import { type Box, LETTER, n, type Point, segment, shortened } from "./marks";
import type { Series } from "./series";

const [LINE, EARLY] = [15, 60]; // pixels: from a name to the next; a line that ends so far from the edge has its name at its end

/** The names of lines at their ends, moved apart, each with a leader to its line; a line that ends early has its name at its last mark. */
export function ends(series: Series[], lanes: Series[], points: Point[][], box: Box, width: number): SVGElement[] {
  const every = series
    .map((one, i) => ({ one, i, at: points[i].at(-1) }))
    .filter((end): end is typeof end & { at: Point } => end.at !== undefined && end.one.name !== "" && !lanes.includes(end.one));
  const ended = every.filter(({ at }) => box.right - at[0] > EARLY).sort((a, b) => a.at[1] - b.at[1]);
  const found = every
    .filter((end) => !ended.includes(end))
    .map((end) => ({ ...end, y: Math.min(Math.max(end.at[1], box.top - 4), box.bottom) }))
    .sort((a, b) => a.y - b.y);
  const room = width - box.right - 28;
  const all = found.every(({ one }) => `${one.name} ${one.ends ?? ""}`.length * LETTER <= room);
  const down = spaced(found.map(({ y }) => y), LINE, [box.top - 4, box.bottom]); // prettier-ignore
  const heights = spaced(ended.map(({ at }) => Math.max(at[1], box.top) - 7), LINE, [box.top - 7, box.bottom]); // prettier-ignore
  return [
    ...ended.map(({ one, i, at: [x] }, k) => label(one, i, name(x + 9, heights[k], shortened(one.name, box.right - x - 9)))),
    ...found.map(({ one, i, at: [x], y }, k) =>
      label(
        one,
        i,
        segment("line.leader", [x + 4, y], [box.right + 12, down[k]]),
        marker(one.look, box.right + 18, down[k], 3.6),
        name(box.right + 27, down[k], all && one.ends !== undefined ? [`${one.name} `, svg("tspan.last", one.ends)] : shortened(one.name, room), { dy: "0.35em" }), // prettier-ignore
      ),
    ),
  ];
}

/** Names beside dots, on the first free side; a name without a free side is in the legend only. */
export function beside(series: Series[], points: Point[][], box: Box): SVGElement[] {
  const large = series.map(({ marks }, i) => points[i].find((_, j) => !marks[j].small));
  const around = ([x, y]: Point, far: number) => [x - far, y - far, x + far, y + far];
  const taken = [
    ...large.filter((at) => at !== undefined).map((at) => around(at, 7)),
    ...series.flatMap(({ marks }, i) => points[i].filter((_, j) => marks[j].small).map((at) => around(at, 4))),
  ];
  const free = ([a, b, c, d]: number[]) =>
    a >= box.left && c <= box.right + 14 && b >= box.top - 16 && d <= box.bottom && !taken.some(([e, f, g, i]) => a < g && c > e && b < i && d > f); // prettier-ignore
  return series.flatMap((one, i) => {
    const at = large[i];
    if (!at) return [];
    const [[x, y], text] = [at, shortened(one.name, 170)];
    const wide = text.length * LETTER;
    const sides: [number, number, string, number][] = [[x, y - 15, "middle", x - wide / 2], [x, y + 15, "middle", x - wide / 2], [x + 11, y, "start", x + 11], [x - 11, y, "end", x - 11 - wide], [x + 9, y - 13, "start", x + 9], [x + 9, y + 13, "start", x + 9]]; // prettier-ignore
    const found = sides.find(([, ty, , from]) => free([from, ty - 7, from + wide, ty + 7]));
    if (!found) return [];
    const [tx, ty, anchor, from] = found;
    taken.push([from, ty - 7, from + wide, ty + 7]);
    return [label(one, i, name(tx, ty, text, { dy: "0.35em", "text-anchor": anchor }))];
  });
}

const label = (one: Series, i: number, ...rest: SVGElement[]): SVGElement =>
  svg("g.label", { "data-series": i, ...ink(one) }, rest);

const name = (x: number, y: number, text: string | (string | SVGElement)[], more = {}): SVGElement =>
  svg("text.name", { "paint-order": "stroke", x: n(x), y: n(y), ...more }, text);

/** Sorted positions moved apart to a distance of `gap` or more, inside [from, to] where there is room. */
export function spaced(points: number[], gap: number, [from, to]: [number, number]): number[] {
  const out = [...points];
  out.forEach((y, i) => (out[i] = Math.max(y, i ? out[i - 1] + gap : from)));
  for (let i = out.length - 1; i >= 0; i--) out[i] = Math.min(out[i], i === out.length - 1 ? to : out[i + 1] - gap);
  return out;
}

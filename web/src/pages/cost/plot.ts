// A plot with logarithmic axes: formulas as lines, measurements as markers, x values as vertical lines. The pointer or arrow keys
// choose a mark; a screen reader says its values.
import { axis, type Axis, short } from "../../charts/axis";
import { type Chosen, nearest, paddedRange, stepped } from "../../charts/plot";
import { dashes, marker } from "../../charts/markers";
import { h, svg } from "../../core/dom";
import { part } from "./bars";

export interface Mark {
  x: number;
  y: number;
  sentence: string;
  low?: number;
  high?: number;
}

export interface Series {
  look: number; // index of marker and dashes
  part: string; // the part whose colour it has
  name: string;
  marks: Mark[];
  signs: boolean; // whether markers are drawn
  line: [number, number][];
  plain?: boolean; // not dashed
}

export interface VerticalLine {
  x: number;
  text: string;
  here?: boolean;
}

export interface Picture {
  series: Series[];
  uprights: VerticalLine[];
  x: string;
  y: string;
  ticks?: number[]; // of the x axis: only these
}

export interface Plot {
  element: HTMLElement;
  legend: HTMLElement;
  draw(picture: Picture): void;
}

const [LEFT, BOTTOM, ROW, LETTER] = [52, 44, 17, 6.7]; // pixels
const n = (value: number): string => value.toFixed(1);
const path = (points: [number, number][]): string => points.map(([x, y], i) => `${i ? "L" : "M"}${n(x)} ${n(y)}`).join("");

/** choose: called with the chosen mark, or undefined. */
export function plot(label: string, choose: (chosen: Mark | undefined) => void): Plot {
  const element = h("div.plot", { tabindex: 0, role: "slider", "aria-label": label, "aria-valuemin": 0 });
  const legend = h("div.legend");
  let [picture, chosen, points]: [Picture | undefined, Chosen | undefined, [number, number][][]] = [undefined, undefined, []];
  const mark = () => (chosen ? picture?.series[chosen.series]?.marks[chosen.mark] : undefined);
  const pick = (next: Chosen | undefined) => {
    if (next?.series === chosen?.series && next?.mark === chosen?.mark) return;
    chosen = next;
    if (picture) show(picture);
    choose(mark());
  };
  const point = (event: PointerEvent) => {
    const box = element.getBoundingClientRect();
    if (picture) pick(nearest(points, [event.clientX - box.left, event.clientY - box.top]));
  };
  element.addEventListener("pointermove", point);
  element.addEventListener("pointerdown", point);
  element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && document.activeElement !== element) pick(undefined);
  });
  element.addEventListener("blur", () => pick(undefined));
  element.addEventListener("keydown", (event) => {
    const next = stepped(event.key, chosen, picture?.series ?? []);
    if (event.key === "Escape") pick(undefined);
    else if (!next) return;
    else pick(next);
    event.preventDefault();
  });

  function show(next: Picture): void {
    const drawing = drawn(next, Math.max(element.clientWidth || 720, 240), chosen);
    points = drawing.points;
    element.replaceChildren(drawing.element);
    const all = next.series.flatMap(({ marks }, series) => marks.map((_, mark) => ({ series, mark })));
    const at = all.findIndex(({ series, mark }) => series === chosen?.series && mark === chosen?.mark);
    element.setAttribute("aria-valuemax", String(Math.max(all.length - 1, 0)));
    element.setAttribute("aria-valuenow", String(Math.max(at, 0)));
    element.setAttribute("aria-valuetext", mark()?.sentence ?? "no mark is chosen; arrow keys choose one");
  }
  function draw(next: Picture): void {
    picture = next;
    if (!mark()) chosen = undefined;
    legend.replaceChildren(...next.series.map((one) => h("span.entry", { "data-work": part(one.part) }, swatch(one), one.name)));
    show(next);
    choose(mark());
  }
  let before = 0;
  new ResizeObserver(() => {
    if (picture && element.clientWidth !== before) show(picture);
    before = element.clientWidth;
  }).observe(element);
  return { element, legend, draw };
}

function swatch(one: Series): SVGElement {
  return svg(
    "svg.swatch",
    { viewBox: "0 0 28 14", width: 28, height: 14, "aria-hidden": "true" },
    one.line.length > 0 &&
      svg("line.thick", { x1: 0, x2: 28, y1: 7, y2: 7, "stroke-dasharray": one.plain ? "" : dashes(one.look) }),
    one.signs && marker(one.look, 14, 7, 4.6),
  );
}

function drawn(picture: Picture, width: number, chosen: Chosen | undefined): { element: SVGElement; points: [number, number][][] } {
  const { series, uprights } = picture;
  const top = 26 + ROW * uprights.length;
  const height = Math.round(Math.min(Math.max(width * 0.42, 280), 400)) + ROW * uprights.length;
  const box = { left: LEFT, right: width - 12, top, bottom: height - BOTTOM };
  const extent = series.flatMap(({ marks, line }) => [...line, ...marks.flatMap(({ x, y, low, high }): [number, number][] => [[x, y], [x, low ?? y], [x, high ?? y]])]); // prettier-ignore
  const across = axis(paddedRange([...extent.map(([x]) => x), ...uprights.map(({ x }) => x)], true, 0.02), [box.left, box.right], Math.max(3, Math.floor(width / 75)), true); // prettier-ignore
  if (picture.ticks) across.ticks = picture.ticks;
  const up = axis(paddedRange(extent.map(([, y]) => y), true, 0.04), [box.bottom, box.top], 7, true); // prettier-ignore
  const at = (x: number, y: number): [number, number] => [across.place(x), up.place(y)];
  const points = series.map(({ marks }) => marks.map(({ x, y }) => at(x, y)));
  const ring = chosen && points[chosen.series]?.[chosen.mark];
  const element = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    frame(picture, across, up, box),
    uprights.flatMap(({ x, text, here }, i) => {
      const px = across.place(x);
      const room = box.right - px > text.length * LETTER + 8;
      return [
        svg("line.upright", { x1: n(px), x2: n(px), y1: 24 + ROW * i, y2: box.bottom, "data-here": here ? "true" : false }),
        svg("text.crossing", { "paint-order": "stroke", x: n(px + (room ? 6 : -6)), y: 32 + ROW * i, "text-anchor": room ? "start" : "end", "data-here": here ? "true" : false }, text), // prettier-ignore
      ];
    }),
    series.map((one, s) =>
      svg(
        "g.series",
        { "data-work": part(one.part), "data-lit": chosen ? String(chosen.series === s) : false },
        one.line.length > 1 && svg("path.thick", { d: path(one.line.map(([x, y]) => at(x, y))), "stroke-dasharray": one.plain ? "" : dashes(one.look) }), // prettier-ignore
        one.signs && one.marks.flatMap(({ x, low, high }) => low !== undefined && high !== undefined ? [svg("line.whisker", { x1: n(across.place(x)), x2: n(across.place(x)), y1: n(up.place(low)), y2: n(up.place(high)) })] : []), // prettier-ignore
        one.signs && points[s].map(([x, y]) => marker(one.look, x, y, 5)),
      ),
    ),
    ring && svg("circle.ring", { cx: n(ring[0]), cy: n(ring[1]), r: 8.5, "data-work": part(series[chosen.series].part) }),
  );
  return { element, points };
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

function frame({ x, y }: Picture, across: Axis, up: Axis, box: Box): SVGElement[] {
  return [
    svg("text.titled", { x: 0, y: 12 }, y),
    ...up.ticks.flatMap((tick) => [
      svg("line.rule", { x1: box.left, x2: box.right, y1: n(up.place(tick)), y2: n(up.place(tick)) }),
      svg("text.tick", { x: box.left - 8, y: n(up.place(tick)), dy: "0.35em", "text-anchor": "end" }, tickText(tick)),
    ]),
    svg("line.base", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    ...across.ticks.flatMap((tick) => [
      svg("line.notch", { x1: n(across.place(tick)), x2: n(across.place(tick)), y1: box.bottom, y2: box.bottom + 5 }),
      svg("text.tick", { x: n(across.place(tick)), y: box.bottom + 18, "text-anchor": "middle" }, tickText(tick)),
    ]),
    svg("text.titled", { x: box.right, y: box.bottom + 37, "text-anchor": "end" }, x),
  ];
}

/** A tick label, with 1T and 1P for large numbers. */
function tickText(value: number): string {
  if (value >= 1e15) return `${Number((value / 1e15).toPrecision(4))}P`;
  if (value >= 1e12) return `${Number((value / 1e12).toPrecision(4))}T`;
  return short(value);
}

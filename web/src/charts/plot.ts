// A plot of candidates: lines or dots as SVG, saved as it is drawn. The pointer or arrow keys choose a mark: left and right along a
// candidate, up and down between candidates; a screen reader says its values.
import { axis, type Axis } from "./axis";
import { h, svg } from "../core/dom";
import { colour, dashes, marker } from "./markers";

export interface Mark {
  x: number;
  y: number | null; // null where a candidate does not support such inputs: drawn in a lane above
  sentence: string; // its values as a sentence
  low?: number; // the range over seeds
  high?: number;
  left?: number;
  right?: number;
  small?: boolean; // one seed
}

export interface Series {
  look: number;
  name: string;
  marks: Mark[];
  ends?: string; // its last number, beside its name
  seeds?: [number, number][][]; // a faint line for each
}

export interface AxisOptions {
  title: string;
  log?: boolean;
  range?: [number, number];
  ticks?: number[]; // only these
  text?: (value: number) => string;
}

export interface Picture {
  kind: "lines" | "dots";
  band: boolean;
  series: Series[];
  x: AxisOptions;
  y: AxisOptions;
}

export interface Chosen {
  series: number;
  mark: number;
}

export interface Plot {
  element: HTMLElement;
  draw(picture: Picture): void;
}

const [LEFT, TOP, BOTTOM, LANE, LETTER, LINE, EARLY] = [54, 30, 46, 15, 6.7, 15, 60]; // pixels

/** choose: called with the chosen mark, or undefined. */
export function plot(label: string, choose: (chosen: Chosen | undefined) => void): Plot {
  const element = h("div.plot", { tabindex: 0, role: "slider", "aria-label": label, "aria-valuemin": 0 });
  let [picture, chosen, points]: [Picture | undefined, Chosen | undefined, [number, number][][]] = [undefined, undefined, []];

  const pick = (next: Chosen | undefined) => {
    if (next?.series === chosen?.series && next?.mark === chosen?.mark) return;
    chosen = next;
    if (picture) show(picture);
    choose(chosen);
  };
  const point = (event: PointerEvent) => {
    const drawn = element.querySelector("svg");
    if (!picture || !drawn) return;
    const box = drawn.getBoundingClientRect();
    const zoom = drawn.viewBox.baseVal.width / (box.width || 1);
    pick(nearest(points, [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom]));
  };
  element.addEventListener("pointermove", point);
  element.addEventListener("pointerdown", point);
  element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && document.activeElement !== element) pick(undefined);
  });
  element.addEventListener("blur", () => pick(undefined));
  element.addEventListener("keydown", (event) => {
    if (!picture) return;
    if (event.key === "Escape") pick(undefined);
    else {
      const next = stepped(event.key, chosen, picture.series);
      if (!next) return;
      pick(next);
    }
    event.preventDefault();
  });

  function show(next: Picture): void {
    const width = Math.max(element.clientWidth || 720, 240);
    const drawing = drawn(next, width, chosen);
    points = drawing.points;
    element.replaceChildren(drawing.element);
    const all = next.series.flatMap(({ marks }, series) => marks.map((_, mark) => ({ series, mark })));
    const at = all.findIndex(({ series, mark }) => series === chosen?.series && mark === chosen?.mark);
    const sentence = chosen && next.series[chosen.series].marks[chosen.mark].sentence;
    element.setAttribute("aria-valuemax", String(Math.max(all.length - 1, 0)));
    element.setAttribute("aria-valuenow", String(Math.max(at, 0)));
    element.setAttribute(
      "aria-valuetext",
      sentence ?? (all.length ? "no mark is chosen; arrow keys choose one" : "nothing to show"),
    );
  }
  function draw(next: Picture): void {
    picture = next;
    const known = chosen && next.series[chosen.series]?.marks[chosen.mark];
    if (!known) chosen = undefined;
    show(next);
    choose(chosen);
  }
  let before = 0;
  new ResizeObserver(() => {
    if (picture && element.clientWidth !== before) show(picture);
    before = element.clientWidth;
  }).observe(element);
  return { element, draw };
}

/** The mark that a key leads to; undefined for other keys. */
export function stepped(key: string, chosen: Chosen | undefined, series: Series[]): Chosen | undefined {
  const known = series.map((one, i) => ({ i, one })).filter(({ one }) => one.marks.length);
  const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"];
  if (!keys.includes(key) || !known.length) return undefined;
  if (!chosen) return { series: known[0].i, mark: key === "Home" ? 0 : known[0].one.marks.length - 1 };
  const { marks } = series[chosen.series];
  const [last, far] = [marks.length - 1, Math.max(1, Math.round(marks.length / 10))];
  const along: Record<string, number> = { ArrowLeft: chosen.mark - 1, ArrowRight: chosen.mark + 1, PageDown: chosen.mark - far, PageUp: chosen.mark + far, Home: 0, End: last }; // prettier-ignore
  if (key in along) return { ...chosen, mark: Math.min(Math.max(along[key], 0), last) };
  const at = known.findIndex(({ i }) => i === chosen.series) + (key === "ArrowDown" ? 1 : -1);
  const next = known[(at + known.length) % known.length];
  const { x } = marks[chosen.mark];
  const mark = next.one.marks.reduce((best, one, i) => (Math.abs(one.x - x) < Math.abs(next.one.marks[best].x - x) ? i : best), 0);
  return { series: next.i, mark };
}

/** The mark nearest to a point, in pixels. */
export function nearest(points: [number, number][][], [x, y]: [number, number]): Chosen | undefined {
  let [best, least]: [Chosen | undefined, number] = [undefined, Infinity];
  points.forEach((marks, series) =>
    marks.forEach(([px, py], mark) => {
      const far = Math.hypot(px - x, py - y);
      if (far < least) [best, least] = [{ series, mark }, far];
    }),
  );
  return best;
}

/** The range of some numbers, with a relative margin on both sides. */
export function paddedRange(values: number[], log: boolean, air: number): [number, number] {
  const known = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!known.length) return log ? [1, 10] : [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (log) {
    const wide = high / low > 1 ? (high / low) ** air : 2;
    return [low / wide, high * wide];
  }
  const more = (high - low || Math.abs(high) || 1) * air;
  return [low - more, high + more];
}

/** Sorted positions moved apart to a distance of `gap` or more, inside [from, to] where there is room. */
export function spaced(points: number[], gap: number, [from, to]: [number, number]): number[] {
  const out = [...points];
  out.forEach((y, i) => (out[i] = Math.max(y, i ? out[i - 1] + gap : from)));
  for (let i = out.length - 1; i >= 0; i--) out[i] = Math.min(out[i], i === out.length - 1 ? to : out[i + 1] - gap);
  return out;
}

/** A name shortened to fit into `room` pixels. */
export function shortened(name: string, room: number): string {
  const most = Math.max(Math.floor(room / LETTER), 3);
  return name.length <= most ? name : `${name.slice(0, most - 1).trimEnd()}…`;
}

/** Whether numbers span enough for a logarithmic axis. */
export const wantsLog = (values: number[]): boolean => values.every((v) => v > 0) && Math.max(...values) > 20 * Math.min(...values);

type Point = [number, number];
const n = (value: number): string => value.toFixed(1);
const path = (points: Point[]): string => points.map(([x, y], i) => `${i ? "L" : "M"}${n(x)} ${n(y)}`).join("");

function drawn(picture: Picture, width: number, chosen: Chosen | undefined): { element: SVGElement; points: Point[][] } {
  const { series, kind } = picture;
  const lanes = series.filter(({ marks }) => marks.some(({ y }) => y === null));
  const lifted = lanes.length ? lanes.length * LANE + 10 : 0;
  const height = Math.round(Math.min(Math.max(width * 0.42, 290), 400)) + lifted;
  const right =
    kind === "lines"
      ? Math.min(Math.max(...series.map(({ name, ends }) => `${name} ${ends ?? ""}`.length * LETTER), 0) + 34, width * 0.3)
      : 16;
  const box = { left: LEFT, right: width - right, top: TOP + lifted, bottom: height - BOTTOM };
  const across = side(picture.x, series.flatMap(({ marks }) => marks.flatMap(({ x, left, right }) => [x, left ?? x, right ?? x])), [box.left, box.right], width / 75, kind === "lines" ? (picture.x.log ? 0.04 : 0) : 0.09); // prettier-ignore
  const up = side(picture.y, levels(series), [box.bottom, box.top], (box.bottom - box.top) / 42, 0.06);
  const lane = (look: number) => TOP + 6 + lanes.findIndex((one) => one.look === look) * LANE;
  const points = series.map(({ look, marks }) => marks.map(({ x, y }): Point => [across.place(x), y === null ? lane(look) : up.place(y)])); // prettier-ignore
  const lit = (i: number) => ({ "data-lit": chosen ? String(chosen.series === i) : false });
  const inside = svg(
    "svg",
    { x: box.left - 8, y: box.top - 8, width: box.right - box.left + 16, height: box.bottom - box.top + 16, viewBox: [box.left - 8, box.top - 8, box.right - box.left + 16, box.bottom - box.top + 16].join(" ") }, // prettier-ignore
    series
      .map((one, i) => svg("g.series", { "data-look": colour(one.look), ...lit(i) }, inked(one, picture, across, up)))
      .reverse(),
  );
  const marked = chosen && points[chosen.series]?.[chosen.mark];
  const element = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    frame(picture, across, up, box, width),
    marked && kind === "lines" && svg("line.hair", { x1: n(marked[0]), x2: n(marked[0]), y1: TOP - 6, y2: box.bottom }),
    inside,
    lanes.map((one, k) =>
      refusing(one, k === 0, points[series.indexOf(one)], lane(one.look), box, width, lit(series.indexOf(one))),
    ),
    kind === "lines" ? ends(series, lanes, points, box, width, lit) : beside(series, points, box, lit),
    marked && svg("circle.ring", { cx: n(marked[0]), cy: n(marked[1]), r: 8.5, "data-look": colour(series[chosen.series].look) }),
  );
  return { element, points };
}

const levels = (series: Series[]): number[] =>
  series.flatMap(({ marks, seeds }) => [
    ...marks.flatMap(({ y, low, high }) => (y === null ? [] : [y, low ?? y, high ?? y])),
    ...(seeds ?? []).flatMap((line) => line.map(([, y]) => y)),
  ]);

function side(given: AxisOptions, values: number[], pixels: [number, number], few: number, air: number): Axis {
  const scale = axis(given.range ?? paddedRange(values, Boolean(given.log), air), pixels, Math.max(2, Math.floor(few)), given.log);
  return { place: scale.place, ticks: given.ticks ?? scale.ticks, text: given.text ?? scale.text };
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

function frame({ x, y }: Picture, across: Axis, up: Axis, box: Box, width: number): SVGElement[] {
  const level = up.ticks.map((tick) => {
    const at = n(up.place(tick));
    return [
      svg("line.rule", { x1: box.left, x2: box.right, y1: at, y2: at }),
      svg("text.tick", { x: box.left - 8, y: at, dy: "0.35em", "text-anchor": "end" }, up.text(tick)),
    ];
  });
  const upright = across.ticks.map((tick) => {
    const at = across.place(tick);
    return [
      svg("line.notch", { x1: n(at), x2: n(at), y1: box.bottom, y2: box.bottom + 5 }),
      svg("text.tick", { x: n(at), y: box.bottom + 18, "text-anchor": "middle" }, across.text(tick)),
    ];
  });
  return [
    svg("text.titled", { x: 0, y: 12 }, shortened(y.title, width)),
    ...level.flat(),
    svg("line.base", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    ...upright.flat(),
    svg("text.titled", { x: Math.max(box.right, Math.min(x.title.length * 7.2, width)), y: box.bottom + 38, "text-anchor": "end" }, shortened(x.title, width)), // prettier-ignore
  ];
}

/** One candidate: its band, its line, its markers. */
function inked(one: Series, { kind, band }: Picture, across: Axis, up: Axis): (SVGElement | false)[] {
  const marks = one.marks.filter((mark): mark is Mark & { y: number } => mark.y !== null);
  const at = ({ x, y }: { x: number; y: number }): Point => [across.place(x), up.place(y)];
  if (kind === "dots") return [...marks.flatMap((mark) => whiskers(mark, across, up)), ...marks.map((mark) => marker(one.look, ...at(mark), mark.small ? 3 : 5.4, mark.small ? "path.sign.seed" : "path.sign"))]; // prettier-ignore
  const spread = marks.filter(({ low, high }) => low !== undefined && high !== undefined);
  const outline = [
    ...spread.map(({ x, high }) => at({ x, y: high! })),
    ...spread.map(({ x, low }) => at({ x, y: low! })).reverse(),
  ];
  const few = Math.max(1, Math.ceil(marks.length / 6));
  const signed = marks.filter((_, i) => marks.length <= 12 || (i + one.look) % few === few - 1);
  return [
    band && spread.length > 1 && svg("path.band", { d: `${path(outline)}Z` }),
    ...(one.seeds ?? []).map((line) => svg("path.thread", { d: path(line.map(([x, y]) => at({ x, y }))) })),
    svg("path.thick", { d: path(marks.map(at)), "stroke-dasharray": dashes(one.look) }),
    ...signed.map((mark) => marker(one.look, ...at(mark), 4)),
  ];
}

function whiskers({ x, y, low, high, left, right }: Mark & { y: number }, across: Axis, up: Axis): SVGElement[] {
  const [px, py] = [n(across.place(x)), n(up.place(y))];
  const out: SVGElement[] = [];
  if (low !== undefined && high !== undefined) out.push(svg("line.whisker", { x1: px, x2: px, y1: n(up.place(low)), y2: n(up.place(high)) })); // prettier-ignore
  if (left !== undefined && right !== undefined) out.push(svg("line.whisker", { x1: n(across.place(left)), x2: n(across.place(right)), y1: py, y2: py })); // prettier-ignore
  return out;
}

type Lit = (i: number) => Record<string, unknown>;

/** Sizes that a candidate does not support, in a lane above the plot. */
function refusing(one: Series, first: boolean, points: Point[], y: number, box: Box, width: number, lit: object): SVGElement {
  const at = points.filter((_, i) => one.marks[i].y === null);
  const cross = ([x]: Point) => svg("path.cross", { d: `M${n(x - 4)} ${n(y - 4)}l8 8m0-8l-8 8` });
  return svg(
    "g.label",
    { "data-look": colour(one.look), ...lit },
    svg("line.lane", { x1: n(at[0][0]), x2: box.right, y1: n(y), y2: n(y) }),
    at.map(cross),
    first && svg("text.refused", { x: n(at[0][0] - 10), y: n(y), dy: "0.35em", "text-anchor": "end" }, "not supported"),
    marker(one.look, box.right + 18, y, 3.6),
    svg(
      "text.name",
      { "paint-order": "stroke", x: n(box.right + 27), y: n(y), dy: "0.35em" },
      shortened(one.name, width - box.right - 28),
    ),
  );
}

/** The names of lines at their ends, moved apart, each with a leader to its line; a line that ends early has its name at its last mark. */
function ends(series: Series[], lanes: Series[], points: Point[][], box: Box, width: number, lit: Lit): SVGElement[] {
  const every = series
    .map((one, i) => ({ one, i, at: points[i].at(-1) }))
    .filter((end): end is typeof end & { at: Point } => end.at !== undefined && !lanes.includes(end.one));
  const ended = every.filter(({ at }) => box.right - at[0] > EARLY).sort((a, b) => a.at[1] - b.at[1]);
  const found = every
    .filter((end) => !ended.includes(end))
    .map((end) => ({ ...end, y: Math.min(Math.max(end.at[1], box.top - 4), box.bottom) }))
    .sort((a, b) => a.y - b.y);
  const room = width - box.right - 28;
  const all = found.every(({ one }) => `${one.name} ${one.ends ?? ""}`.length * LETTER <= room);
  const ys = spaced(found.map(({ y }) => y), LINE, [box.top - 4, box.bottom]); // prettier-ignore
  const heights = spaced(ended.map(({ at }) => Math.max(at[1], box.top) - 7), LINE, [box.top - 7, box.bottom]); // prettier-ignore
  const early = ended.map(({ one, i, at: [x] }, k) =>
    svg("g.label", { "data-look": colour(one.look), ...lit(i) }, svg("text.name", { "paint-order": "stroke", x: n(x + 9), y: n(heights[k]) }, shortened(one.name, box.right - x - 9)))); // prettier-ignore
  const late = found.map(({ one, i, at, y }, k) =>
    svg(
      "g.label",
      { "data-look": colour(one.look), ...lit(i) },
      svg("path.leader", { d: path([[at[0] + 4, y], [box.right + 12, ys[k]]]) }), // prettier-ignore
      marker(one.look, box.right + 18, ys[k], 3.6),
      svg("text.name", { "paint-order": "stroke", x: n(box.right + 27), y: n(ys[k]), dy: "0.35em" }, named(one, room, all)),
    ),
  );
  return [...early, ...late];
}

/** A name, with its last value where there is room for all values. */
const named = ({ name, ends }: Series, room: number, all: boolean): (string | SVGElement)[] =>
  all && ends !== undefined ? [`${name} `, svg("tspan.last", ends)] : [shortened(name, room)];

/** Names beside dots, on the first free side; a name without a free side is in the legend only. */
function beside(series: Series[], points: Point[][], box: Box, lit: Lit): SVGElement[] {
  const large = series.map(({ marks }, i) => points[i].find((_, j) => !marks[j].small));
  const taken = large.filter((at) => at !== undefined).map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]);
  series.forEach(({ marks }, i) => marks.forEach((mark, j) => mark.small && taken.push([points[i][j][0] - 4, points[i][j][1] - 4, points[i][j][0] + 4, points[i][j][1] + 4]))); // prettier-ignore
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
    return [
      svg(
        "g.label",
        { "data-look": colour(one.look), ...lit(i) },
        svg("text.name", { "paint-order": "stroke", x: n(tx), y: n(ty), dy: "0.35em", "text-anchor": anchor }, text),
      ),
    ];
  });
}

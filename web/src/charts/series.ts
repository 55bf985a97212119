// A picture of series: what stands on a chart as data, and how it is drawn.
import { svg } from "../core/dom";
import { dashes, ink, type Look, marker } from "./markers";
import { at, axes, band, dot, type Box, line, n, type Point, segment, shortened, type Space } from "./marks";
import { beside, ends } from "./names";
import { paddedRange, scale, type ScaleOptions } from "./scale";

/** A number that can be chosen. */
export interface Mark {
  x: number;
  y: number | null; // null where there is none to draw: it stands in a lane above
  sentence: string; // its values as a sentence
  low?: number; // the range around it
  high?: number;
  left?: number;
  right?: number;
  small?: boolean;
}

export interface Series extends Look {
  name: string;
  marks: Mark[];
  line?: Point[] | "marks";
  faint?: boolean; // its line stands behind the others
  band?: boolean; // the ranges as a band, and not as whiskers
  threads?: Point[][]; // a faint line for each
  best?: number; // the mark with a ring around it
  ends?: string; // its last number, beside its name
}

/** A line across the picture at one x, with a text above. */
export interface Upright {
  x: number;
  text?: string;
  here?: boolean;
}

export interface Picture {
  series: Series[];
  x: ScaleOptions;
  y: ScaleOptions;
  height?: number;
  names?: "ends" | "beside"; // where the names of the series stand; by default in no place of the picture
  uprights?: Upright[];
  along?: ArrayLike<number>; // the x that can be chosen, by default those of marks
}

export interface Drawn {
  element: SVGElement;
  points: Point[][]; // of what can be chosen, series by series
  space: Space;
}

const [LEFT, TOP, BOTTOM, LANE, ROW] = [54, 30, 46, 15, 17]; // pixels

export function drawn(picture: Picture, width: number): Drawn {
  const { series, uprights = [] } = picture;
  const lanes = series.filter(({ marks }) => marks.some(({ y }) => y === null));
  const lifted = (lanes.length ? lanes.length * LANE + 10 : 0) + uprights.filter(({ text }) => text).length * ROW;
  const height = (picture.height ?? Math.round(Math.min(Math.max(width * 0.42, 290), 400))) + lifted;
  const above = picture.y.title ? TOP : 12;
  const below = picture.x.title ? BOTTOM : 26;
  const box = { left: LEFT, right: width - margin(picture, width), top: above + lifted, bottom: height - below };
  const space: Space = {
    x: side(picture.x, [...xs(series), ...uprights.map(({ x }) => x)], [box.left, box.right], width / 95),
    y: side(picture.y, ys(series), [box.bottom, box.top], (box.bottom - box.top) / 50),
    box,
  };
  const lane = (one: Series) => above + 6 + lanes.indexOf(one) * LANE;
  const points = series.map((one) => one.marks.map(({ x, y }): Point => [space.x.place(x), y === null ? lane(one) : space.y.place(y)])); // prettier-ignore
  const clip = [box.left - 9, box.top - 9, box.right - box.left + 18, box.bottom - box.top + 18];
  const element = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    axes(space, { x: picture.x.title, y: picture.y.title }, width),
    inFront(uprights.map((one, i) => upright(one, space, above - 6 + ROW * i))),
    svg(
      "svg",
      { x: clip[0], y: clip[1], width: clip[2], height: clip[3], viewBox: clip.join(" ") },
      series.map((one, i) => svg("g.series", { "data-series": i, ...ink(one) }, inked(one, space))).reverse(),
    ),
    lanes.map((one, i) => refusing(one, series.indexOf(one), i === 0, points[series.indexOf(one)], lane(one), box, width)),
    picture.names === "ends" ? ends(series, lanes, points, box, width) : picture.names ? beside(series, points, box) : [],
  );
  return { element, points: picture.along ? [Array.from(picture.along, (x): Point => [space.x.place(x), NaN])] : points, space };
}

/** The width beside the plot that the names of lines take. */
function margin({ series, names }: Picture, width: number): number {
  if (names !== "ends") return 16;
  const widest = Math.max(...series.map(({ name, ends }) => `${name} ${ends ?? ""}`.length * 6.7), 0);
  return Math.min(widest + 34, width * 0.3);
}

const side = (given: ScaleOptions, values: number[], pixels: [number, number], few: number) =>
  scale(given.range ?? paddedRange(values, Boolean(given.log), given.air ?? 0.06), pixels, few, given);

const xs = (series: Series[]): number[] =>
  series.flatMap(({ marks, line }) => [...marks.flatMap(({ x, left, right }) => [x, left ?? x, right ?? x]), ...(Array.isArray(line) ? line.map(([x]) => x) : [])]); // prettier-ignore

const ys = (series: Series[]): number[] =>
  series.flatMap(({ marks, line, threads }) => [
    ...marks.flatMap(({ y, low, high }) => (y === null ? [] : [y, low ?? y, high ?? y])),
    ...[...(Array.isArray(line) ? [line] : []), ...(threads ?? [])].flatMap((points) => points.map(([, y]) => y)),
  ]);

/** One series: its band, its lines, its markers. */
function inked(one: Series, space: Space): (SVGElement | false)[] {
  const marks = one.marks.filter((mark): mark is Mark & { y: number } => Number.isFinite(mark.y));
  const spread = marks.flatMap(({ x, low, high }) => (low === undefined || high === undefined ? [] : [{ x, low, high }]));
  const points = one.line === "marks" ? marks.map(({ x, y }): Point => [x, y]) : (one.line ?? []);
  const few = Math.max(1, Math.ceil(marks.length / 6));
  const signed = one.signs === "few" ? marks.filter((_, i) => marks.length <= 12 || (i + one.look) % few === few - 1) : one.signs ? marks : []; // prettier-ignore
  const best = marks[one.best ?? -1];
  return [
    one.band === true && spread.length > 1 && band(space, spread),
    ...(one.threads ?? []).map((thread) => line(space, thread, "path.thread")),
    points.length > 1 && line(space, points, one.faint ? "path.thread" : "path.thick", { "stroke-dasharray": one.plain ? "" : dashes(one.look) }), // prettier-ignore
    points.length === 1 && sign(one, { x: points[0][0], y: points[0][1], sentence: "" }, space),
    ...(one.band ? [] : marks.flatMap((mark) => whiskers(mark, space))),
    ...signed.map((mark) => sign(one, mark, space)),
    best && dot(space, [best.x, best.y], 7, "circle.ring"),
  ];
}

function sign(one: Series, { x, y, small }: Mark & { y: number }, space: Space): SVGElement {
  const [px, py] = at(space, [x, y]);
  if (one.signs === "dots") return dot(space, [x, y], one.marks.length > 60 ? 2 : 3.2, "circle.sample");
  return marker(one.look, px, py, small ? 3 : one.signs === "few" ? 4 : 5.2, small ? "path.sign.seed" : "path.sign");
}

function whiskers({ x, y, low, high, left, right }: Mark & { y: number }, space: Space): SVGElement[] {
  const whisker = (a: Point, b: Point) => segment("line.whisker", at(space, a), at(space, b));
  return [
    ...(low !== undefined && high !== undefined ? [whisker([x, low], [x, high])] : []),
    ...(left !== undefined && right !== undefined ? [whisker([left, y], [right, y])] : []),
  ];
}

/** All lines, then all texts: no line crosses the text of another one. */
const inFront = (made: SVGElement[][]): SVGElement[] => [...made.map(([line]) => line), ...made.flatMap(([, ...text]) => text)];

function upright({ x, text, here }: Upright, { x: { place }, box }: Space, top: number): SVGElement[] {
  const [px, which] = [place(x), { "data-here": here ? "true" : false }];
  const room = box.right - px > (text ?? "").length * 6.7 + 8;
  return [
    segment("line.upright", [px, top], [px, box.bottom], which),
    ...(text ? [svg("text.crossing", { "paint-order": "stroke", x: n(px + (room ? 6 : -6)), y: top + 8, "text-anchor": room ? "start" : "end", ...which }, text)] : []), // prettier-ignore
  ];
}

/** Marks without a number, in a lane above the plot. */
function refusing(one: Series, i: number, first: boolean, points: Point[], y: number, box: Box, width: number): SVGElement {
  const none = points.filter((_, i) => one.marks[i].y === null);
  return svg(
    "g.label",
    { "data-series": i, ...ink(one) },
    segment("line.lane", [none[0][0], y], [box.right, y]),
    none.map(([x]) => svg("path.cross", { d: `M${n(x - 4)} ${n(y - 4)}l8 8m0-8l-8 8` })),
    first && svg("text.refused", { x: n(none[0][0] - 10), y: n(y), dy: "0.35em", "text-anchor": "end" }, "not supported"),
    marker(one.look, box.right + 18, y, 3.6),
    svg("text.name", { "paint-order": "stroke", x: n(box.right + 27), y: n(y), dy: "0.35em" }, shortened(one.name, width - box.right - 28)), // prettier-ignore
  );
}

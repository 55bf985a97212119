// A chart that can be read: the pointer or the arrow keys choose a mark, left and right along a series, up and down between series, and a
// screen reader says its values.
import { h, svg } from "../core/dom";
import { ink } from "./markers";
import { dot, n, type Point, segment } from "./marks";
import { type Drawn, drawn, type Picture } from "./series";
import "./charts.css";

export interface Chosen {
  series: number;
  mark: number;
}

export interface Plot {
  element: HTMLElement;
  draw(picture: Picture): void;
  point(chosen: Chosen | undefined): void; // what another chart has chosen
}

/** choose: called with the chosen mark, or undefined. read: of a picture with `along`, one of its x as a sentence. */
export function plot(label: string, choose: (chosen: Chosen | undefined) => void, read?: (index: number) => string): Plot {
  const element = h("div.plot", { tabindex: 0, role: "slider", "aria-label": label, "aria-valuemin": 0 });
  const over = svg("g.over");
  let [picture, chosen, shown]: [Picture | undefined, Chosen | undefined, Drawn | undefined] = [undefined, undefined, undefined];

  const pick = (next: Chosen | undefined) => {
    if (next?.series === chosen?.series && next?.mark === chosen?.mark) return;
    chosen = next;
    light();
    choose(chosen);
  };
  const point = (event: PointerEvent) => {
    const found = element.querySelector("svg");
    if (!picture || !shown || !found) return;
    const box = found.getBoundingClientRect();
    const zoom = found.viewBox.baseVal.width / (box.width || 1);
    pick(nearest(shown.points, [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom]));
  };
  element.addEventListener("pointermove", point);
  element.addEventListener("pointerdown", point);
  element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && document.activeElement !== element) pick(undefined);
  });
  element.addEventListener("blur", () => pick(undefined));
  element.addEventListener("keydown", (event) => {
    if (!picture) return;
    const next = stepped(event.key, chosen, marks(picture));
    if (event.key === "Escape") pick(undefined);
    else if (next) pick(next);
    else return;
    event.preventDefault();
  });

  function show(next: Picture): void {
    shown = drawn(next, Math.max(element.clientWidth || 720, 240));
    shown.element.append(over);
    element.replaceChildren(shown.element);
    light();
  }

  /** What is chosen: a ring around a mark, or a hair across the picture; the others are dimmed. */
  function light(): void {
    if (!picture || !shown) return;
    const [{ points, space }, { series, along }] = [shown, picture];
    const marked = chosen && points[chosen.series]?.[chosen.mark];
    const hair = marked && (along || picture.names === "ends") ? [segment("line.hair", [marked[0], space.box.top - 8], [marked[0], space.box.bottom])] : []; // prettier-ignore
    const ring = marked && !along ? [svg("circle.ring", { cx: n(marked[0]), cy: n(marked[1]), r: 8.5, ...ink(series[chosen!.series]) })] : []; // prettier-ignore
    over.replaceChildren(...hair, ...(along && chosen ? dots(picture, along[chosen.mark], shown) : ring));
    for (const one of element.querySelectorAll<SVGElement>("[data-series]"))
      if (chosen && !along) one.dataset.lit = String(one.dataset.series === String(chosen.series));
      else delete one.dataset.lit;
    const counts = marks(picture).map(({ length }) => length);
    const before = counts.slice(0, chosen?.series).reduce((sum, count) => sum + count, 0);
    const all = counts.reduce((sum, count) => sum + count, 0);
    const here = chosen ? before + chosen.mark : along ? all - 1 : 0;
    const said = along ? all > 0 && read?.(here) : chosen && series[chosen.series].marks[chosen.mark]?.sentence;
    element.setAttribute("aria-valuemax", String(Math.max(all - 1, 0)));
    element.setAttribute("aria-valuenow", String(Math.max(here, 0)));
    element.setAttribute("aria-valuetext", said || (all ? "no mark is chosen; arrow keys choose one" : "nothing to show"));
  }

  function draw(next: Picture): void {
    picture = next;
    if (chosen && !((marks(next)[chosen.series]?.length ?? 0) > chosen.mark)) chosen = undefined;
    show(next);
    if (!next.along) choose(chosen);
  }
  let before = 0;
  new ResizeObserver(() => {
    if (picture && element.clientWidth !== before) show(picture);
    before = element.clientWidth;
  }).observe(element);
  return {
    element,
    draw,
    point(next) {
      chosen = next;
      light();
    },
  };
}

/** The x of what can be chosen, series by series. */
const marks = ({ series, along }: Picture): ArrayLike<number>[] =>
  along ? [along] : series.map(({ marks }) => marks.map(({ x }) => x));

/** A dot on each line at one x. */
function dots({ series }: Picture, x: number, { space }: Drawn): SVGElement[] {
  return series.flatMap((one) => {
    const points = one.line === "marks" || !one.line ? one.marks.map(({ x, y }): Point => [x, y ?? NaN]) : one.line;
    const y = one.faint ? undefined : points.find(([at]) => at === x)?.[1];
    if (y === undefined || !Number.isFinite(y)) return [];
    return [dot(space, [x, y], 4.5, "circle.dot", ink(one))];
  });
}

/** The mark that a key leads to; undefined for other keys. marks: the x of each series. */
export function stepped(key: string, chosen: Chosen | undefined, marks: ArrayLike<number>[]): Chosen | undefined {
  const known = marks.flatMap(({ length }, i) => (length ? [i] : []));
  const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"];
  if (!keys.includes(key) || !known.length) return undefined;
  if (!chosen) return { series: known[0], mark: key === "Home" ? 0 : marks[known[0]].length - 1 };
  const xs = marks[chosen.series];
  const [last, far] = [xs.length - 1, Math.max(1, Math.round(xs.length / 20))];
  const by: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageDown: -far, PageUp: far, Home: -last, End: last };
  if (known.length === 1) Object.assign(by, { ArrowDown: -1, ArrowUp: 1 });
  if (key in by) return { ...chosen, mark: Math.min(Math.max(chosen.mark + by[key], 0), last) };
  const next = known[(known.indexOf(chosen.series) + (key === "ArrowDown" ? 1 : -1) + known.length) % known.length];
  return { series: next, mark: closest(marks[next], xs[chosen.mark]) };
}

const closest = (xs: ArrayLike<number>, x: number): number => {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
  return best;
};

/** The mark nearest to a point, in pixels; where marks have no height, the nearest across. */
export function nearest(points: Point[][], [x, y]: Point): Chosen | undefined {
  let [best, least]: [Chosen | undefined, number] = [undefined, Infinity];
  points.forEach((marks, series) =>
    marks.forEach(([px, py], mark) => {
      const far = Math.hypot(px - x, Number.isNaN(py) ? 0 : py - y);
      if (far < least) [best, least] = [{ series, mark }, far];
    }),
  );
  return best;
}

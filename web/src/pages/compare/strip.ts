// A strip plot for each row, on an axis that all rows share; coordinates in percent, so that it follows the width of its column.
import { axis, type Axis } from "../../charts/axis";
import { h, svg } from "../../core/dom";
import { type Group, type Spread, spread } from "./groups";
import { colour, marker } from "../../charts/markers";
import { paddedRange } from "../../charts/plot";

const HEIGHT = 34; // pixels

export const percent = (x: number): string => `${x.toFixed(2)}%`;

/** The axis of all numbers of all candidates, to percent of the width. */
export function sharedAxis(groups: Group[]): Axis {
  const around = groups.flatMap(({ value }) => (value?.sd ? [value.mean - value.sd, value.mean + value.sd] : []));
  const all = groups.flatMap(({ trials }) => trials.map(({ value }) => value ?? NaN));
  return axis(paddedRange([...around, ...all], false, 0.04), [2, 98], 4);
}

/** The axis above a column of strips. */
export const scale = ({ ticks, place, text }: Axis): HTMLElement =>
  h("span.scale", { "aria-hidden": "true" }, ticks.map((tick) => h("span", { style: `left:${percent(place(tick))}` }, text(tick)))); // prettier-ignore

export const rules = ({ ticks, place }: Axis): SVGElement[] =>
  ticks.map((tick) => svg("line.rule", { x1: percent(place(tick)), x2: percent(place(tick)), y1: 0, y2: "100%" }));

/** Every seed as a marker, the mean as a line, a band of ± one standard deviation. */
export function strip({ index, trials, value }: Group, axis: Axis, label: string): SVGElement {
  const dots = trials.flatMap(({ value, seed }) => (value == null ? [] : [{ value, seed }]));
  const middle = HEIGHT / 2;
  return svg(
    "svg.strip",
    { width: "100%", height: HEIGHT, role: "img", "aria-label": label, "data-look": colour(index) },
    rules(axis),
    value && band(value, axis),
    value && svg("line.mean", { x1: percent(axis.place(value.mean)), x2: percent(axis.place(value.mean)), y1: 4, y2: HEIGHT - 4 }),
    dots.map(({ value, seed }, i) => {
      const y = middle + (dots.length < 2 ? 0 : (i / (dots.length - 1) - 0.5) * 15);
      const place = svg("svg.seed", { x: percent(axis.place(value)), y, overflow: "visible" }, marker(index, 0, 0, 3.6));
      place.append(svg("title", `seed ${seed}: ${value}`));
      return place;
    }),
  );
}

function band({ mean, sd }: Spread, { place }: Axis): SVGElement | undefined {
  if (!sd) return undefined;
  const [from, to] = [place(mean - sd), place(mean + sd)];
  return svg("rect.band", { x: percent(from), width: percent(to - from), y: 5, height: HEIGHT - 10, rx: 3 });
}

/** A strip in words, for a screen reader. */
export function stripText({ trials }: Group, write: (value: number) => string): string {
  const known = trials.filter(({ value }) => value != null);
  if (!known.length) return "no result";
  const found = spread(known.map(({ value }) => value))!;
  const seeds = known.map(({ seed, value }) => `seed ${seed} ${write(value!)}`).join(", ");
  return known.length < 2 ? `${seeds}; one seed` : `${seeds}; mean ${write(found.mean)}`;
}

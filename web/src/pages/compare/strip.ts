// A strip plot for each row, on a scale that all rows share.
import { percent, rules, upright } from "../../charts/column";
import { paddedRange, type Scale, scale } from "../../charts/scale";
import { svg } from "../../core/dom";
import { type Group, type Spread, spread } from "./groups";
import { colour, marker } from "../../charts/markers";

const HEIGHT = 34; // pixels

/** The scale of all numbers of all candidates, to percent of the width. */
export function sharedScale(groups: Group[]): Scale {
  const around = groups.flatMap(({ value }) => (value?.sd ? [value.mean - value.sd, value.mean + value.sd] : []));
  const all = groups.flatMap(({ trials }) => trials.map(({ value }) => value ?? NaN));
  return scale(paddedRange([...around, ...all], false, 0.04), [2, 98], 4);
}

/** Every seed as a marker, the mean as a line, a band of ± one standard deviation. */
export function strip({ index, trials, value }: Group, scale: Scale, label: string): SVGElement {
  const dots = trials.flatMap(({ value, seed }) => (value == null ? [] : [{ value, seed }]));
  const middle = HEIGHT / 2;
  return svg(
    "svg.strip",
    { width: "100%", height: HEIGHT, role: "img", "aria-label": label, "data-look": colour(index) },
    rules(scale),
    value && band(value, scale),
    value && upright("line.mean", scale, value.mean, 4, HEIGHT - 4),
    dots.map(({ value, seed }, i) => {
      const y = middle + (dots.length < 2 ? 0 : (i / (dots.length - 1) - 0.5) * 15);
      const place = svg("svg.seed", { x: percent(scale.place(value)), y, overflow: "visible" }, marker(index, 0, 0, 3.6));
      place.append(svg("title", `seed ${seed}: ${value}`));
      return place;
    }),
  );
}

function band({ mean, sd }: Spread, { place }: Scale): SVGElement | undefined {
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

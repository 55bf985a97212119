// A column of small plots on one scale, in percent of its width: the scale above it, and its lines behind each plot.
import { h, svg } from "../core/dom";
import type { Scale } from "./scale";

export const percent = (x: number): string => `${x.toFixed(2)}%`;

/** The scale above a column. */
export const above = ({ ticks, place, text }: Scale): HTMLElement =>
  h("span.scale", { "aria-hidden": "true" }, ticks.map((tick) => h("span", { style: `left:${percent(place(tick))}` }, text(tick)))); // prettier-ignore

/** A line from the top to the bottom of a plot, at one number. */
export const upright = (
  tag: string,
  { place }: Scale,
  value: number,
  top: number | string = 0,
  bottom: number | string = "100%",
): SVGElement =>
  // prettier-ignore
  svg(tag, { x1: percent(place(value)), x2: percent(place(value)), y1: top, y2: bottom });

/** Lines at the ticks. */
export const rules = (scale: Scale): SVGElement[] => scale.ticks.map((tick) => upright("line.rule", scale, tick));

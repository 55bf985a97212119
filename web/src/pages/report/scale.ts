// The axis of errors: powers of ten from 1e-17 to 10, with positions of their own for 0 and for what is not finite. Coordinates are in
// percent, so that a drawing follows the width of its column.
import { h, svg } from "../../core/dom";
import { scientific } from "../../core/format";

export const [LEAST, MOST] = [-17, 1]; // powers of ten
const [ZERO, FROM, TO, ENDLESS] = [3, 8, 94, 98];
export const TICKS = [1e-16, 1e-12, 1e-8, 1e-4, 1];

/** The position of an error in percent of the width. A negative number stands for an error that is not finite. */
export function place(error: number | null | undefined): number {
  if (error === null || error === undefined || !Number.isFinite(error) || error < 0) return ENDLESS;
  if (error === 0) return ZERO;
  const power = Math.min(Math.max(Math.log10(error), LEAST), MOST);
  return FROM + ((power - LEAST) / (MOST - LEAST)) * (TO - FROM);
}

export const percent = (x: number): string => `${x.toFixed(2)}%`;

/** A tolerance in per cent. */
export const share = (value: number): string => `${Number((100 * value).toPrecision(3))} %`;

/** 10⁻¹⁶, as a label. */
export const power = (value: number): string => (value === 1 ? "1" : scientific(value).replace(/^1\.0·/, ""));

/** The labelled axis above a column of plots. */
export function axis(): HTMLElement {
  const label = (text: string, x: number) => h("span", { style: `left:${percent(x)}` }, text);
  return h("span.axis", { "aria-hidden": "true" }, label("0", ZERO), TICKS.map((tick) => label(power(tick), place(tick)))); // prettier-ignore
}

/** Grid lines at the labelled powers of ten, and at 0. */
export const lines = (): SVGElement[] =>
  [ZERO, ...TICKS.map(place)].map((x) => svg("line.tick", { x1: percent(x), x2: percent(x), y1: 0, y2: "100%" }));

// A line of tokens that a person can point at: words as text, patches as a picture, slices along time. Each shows who is chosen and
// how much weight every token has.
import type { Line } from "../contract";
import { patches } from "./patches";
import { slices } from "./slices";
import { words } from "./words";

export interface Shown {
  chosen?: number; // whose weights are shown, where it stands in this line
  other?: number; // the other end of the chosen cell
  weights?: Float64Array; // one a token
  signed: boolean; // they are differences
  hidden: number[]; // tokens that a person hid
  closed?: (place: number) => boolean; // tokens that may not be seen, or may not see
}

export interface Listener {
  point(place: number | undefined): void;
  pick(place: number): void;
}

export interface LineView {
  element: HTMLElement;
  draw(shown: Shown): void;
}

export function lineView(line: Line, label: string, listener: Listener): LineView {
  const cells = (line.grid?.[0] ?? 0) * (line.grid?.[1] ?? 0);
  if (line.kind === "patches" && cells) return patches(line, label, listener);
  if (line.kind === "slices" && line.labels.length > 1) return slices(line, label, listener);
  return words(line, label, listener);
}

/** How strong each weight is drawn, and its sign: relative to the largest of those shown. */
export function scaled({ weights, signed }: Shown): { most: number; of(place: number): number } {
  let most = 0;
  for (const weight of weights ?? []) if (Math.abs(weight) > most) most = Math.abs(weight);
  return {
    most,
    of(place) {
      const weight = weights?.[place] ?? 0;
      const size = most > 0 ? Math.sqrt(Math.abs(weight) / most) : 0;
      return signed && weight < 0 ? -size : size;
    },
  };
}

/** Where an arrow key leads along a line; nothing for other keys. */
export function along(key: string, at: number, count: number): number | undefined {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

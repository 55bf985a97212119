// A line of tokens to point at: words as text, patches as a picture, slices of a sound along time. Each shows the chosen token and
// the weight of every token.
import type { TokenSequence } from "../../core/contract";
import { patches } from "./patches";
import { slices } from "./slices";
import { words } from "./words";

export interface Shown {
  chosen?: number; // the token whose weights are shown, where it is in this line
  other?: number; // the token at the other end of the chosen cell
  weights?: Float64Array; // one for each token
  signed: boolean; // weights are differences
  hidden: number[]; // tokens that the reader masked
  closed?: (place: number) => boolean; // tokens that the mask excludes
}

export interface Listener {
  point(place: number | undefined): void;
  pick(place: number): void;
}

export interface LineView {
  element: HTMLElement;
  draw(shown: Shown): void;
}

export function lineView(line: TokenSequence, label: string, listener: Listener): LineView {
  const cells = (line.grid?.[0] ?? 0) * (line.grid?.[1] ?? 0);
  if (line.kind === "patches" && cells) return patches(line, label, listener);
  if (line.kind === "slices" && line.labels.length > 1) return slices(line, label, listener);
  return words(line, label, listener);
}

/** The tint of each weight, signed, relative to the largest one shown. */
export function tintScale({ weights, signed }: Shown): { most: number; of(place: number): number } {
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

/** The index that an arrow key leads to along a line; undefined for other keys. */
export function nextIndex(key: string, at: number, count: number): number | undefined {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

// Token labels for display. Labels are untrusted: invisible characters are written out, and text of any direction is isolated.
import type { TokenSequence } from "./contract";
import { h } from "./dom";

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;
const EDGE = /^[\u200c\u200d]+|[\u200c\u200d]+$/gu; // joiners, which inside a word or an emoji are letters like others
const SIGNS: Record<string, string> = { "\n": "↵", "\t": "⇥", "\r": "↤" };
const PIECE = /⟨[0-9A-F]{2}(?: [0-9A-F]{2})*(?: of ([^⟩]+))?⟩/gu; // bytes of a letter, as the command writes them
const RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

const written = (text: string): string =>
  Array.from(text, (letter) => SIGNS[letter] ?? `⟨${letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`).join("");

/** A label with its invisible characters written out, except spaces. */
export const shown = (label: string): string =>
  label
    .replace(UNSEEN, written)
    .replace(EDGE, written)
    .replace(/^(\s*)(\p{M})/u, "$1◌$2");

/** The same, with spaces at its ends written out. A token without a label is its position. */
export const visible = (label: string | undefined, place: number): string =>
  label === undefined ? String(place) : label === "" ? "∅" : shown(label).replace(/^ +| +$/g, (s) => "␣".repeat(s.length));

/** A label short enough for a button. */
export function brief(label: string | undefined, place: number, long = 18): string {
  const letters = Array.from(visible(label, place));
  return letters.length > long ? `${letters.slice(0, long - 1).join("")}…` : letters.join("");
}

/** The direction of a text: that of its first letter. */
export function direction(labels: string[]): "ltr" | "rtl" {
  for (const label of labels.slice(0, 64)) {
    const letter = /\p{L}/u.exec(label.replace(PIECE, "$1"));
    if (letter) return RIGHT.test(letter[0]) ? "rtl" : "ltr";
  }
  return "ltr";
}

/** Whether labels contain their own spaces, as those of byte-level tokenizers do. */
export const spaced = (labels: string[]): boolean => labels.some((label) => /^\s|\s$/.test(label));

/** A label inside a sentence of the page, without the leading space of a byte-level tokenizer. */
const quoted = (line: TokenSequence, place: number): string => visible(line.labels[place]?.replace(/^ (?=\S)/, ""), place);

/** A token in a sentence of the page: “dog” and its position. */
export const named = (line: TokenSequence, place: number): HTMLElement =>
  h("span.named", "“", h("bdi", quoted(line, place)), "” ", h("sub", String(place)));

/** The same as text. */
export const spoken = (line: TokenSequence, place: number): string => `“\u2068${quoted(line, place)}\u2069” (${place})`;

// What a page in a frame and the document around it (a notebook, a book, any other page) say to each other. The frame has no origin of
// its own, so nothing else passes between them: the document hands over one end of a channel, and messages from elsewhere are ignored.
import type { Marked } from "../core/goals";

export const HELLO = "equiscope"; // what comes with the page's end of the channel

/** From the page. link: what is chosen, and whether a person has touched the page yet; height in pixels; show: top and bottom, in pixels
 * of the page, of what should be on screen; marked: the answer to a goal, or the goals that exist; ask, drop: a request to the model, and
 * one that is not waited for any more. */
export type FromPage =
  | { link: string; acted: boolean }
  | { height: number }
  | { show: [number, number] }
  | { marked: Marked | string[]; number: number }
  | { ask: string; number: number }
  | { drop: number };

/** To the page. link: what to choose; goal: which to mark; below: pixels of the page under the lower edge of the screen; status, body: the
 * answer of the model. */
export type ToPage =
  { link: string } | { goal: string; number: number } | { below: number } | { number: number; status: number; body: string };

/** The part of an address that says what is chosen. */
export const linkOf = (address: string): string => {
  const at = address.indexOf("#");
  return at < 0 ? "" : address.slice(at + 1);
};

/** A link, how the page is shown, and the parts that are named. */
export interface View {
  link: string;
  figure: boolean;
  parts: string[];
}

/** What a link says beside the state of the page: `view=figure`, and `part`, names with spaces between them. */
export function viewOf(address: string): View {
  const fields = new URLSearchParams(address);
  const figure = fields.get("view") === "figure";
  const parts = names(fields.get("part"));
  if (!fields.has("view") && !fields.has("part")) return { link: address, figure, parts };
  for (const name of ["view", "part"]) fields.delete(name);
  return { link: fields.toString(), figure, parts };
}

/** Names of parts, as in the attribute `part`. */
export const names = (text: string | null): string[] => (text ?? "").split(/[\s,]+/).filter((name) => /^[a-z0-9-]+$/.test(name));

/** The link of a figure. */
export const figureLink = (state: string, part: string | null): string => {
  const fields = new URLSearchParams({ view: "figure" });
  if (names(part).length) fields.set("part", names(part).join(" "));
  return [fields.toString(), state].filter(Boolean).join("&");
};

/** A state with the fields of another one; an empty field is taken out. */
export function merged(state: string, change: string): string {
  const fields = new URLSearchParams(state);
  for (const [name, value] of new URLSearchParams(change)) {
    if (value) fields.set(name, value);
    else fields.delete(name);
  }
  return fields.toString();
}

/** The height of a frame: that of its page, up to a bound; 0 is no bound. */
export const fitting = (height: number, bound: number, least = 120): number =>
  Math.max(least, Math.ceil(bound ? Math.min(height, bound) : height));

/** Whether text of this color implies a dark background: red, green and blue from 0 to 255. */
export const bright = ([red, green, blue]: Iterable<number>): boolean => 0.299 * red + 0.587 * green + 0.114 * blue > 127.5;

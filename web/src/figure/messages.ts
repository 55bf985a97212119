// What a page in a frame and the notebook around it say to each other. The frame has no origin of its own, so nothing else passes
// between them: the notebook hands over one end of a channel, and messages from elsewhere are ignored.

export const HELLO = "equiscope"; // what comes with the page's end of the channel

/** From the page: what is chosen, as in its link; how high it is; what it asks the model; a question it does not wait for any more. */
export type FromPage = { link: string } | { height: number } | { ask: string; number: number } | { drop: number };

/** To the page: what to choose; what the model answers. */
export type ToPage = { link: string } | { number: number; status: number; body: string };

/** The part of an address that says what is chosen. */
export const linkOf = (address: string): string => {
  const at = address.indexOf("#");
  return at < 0 ? "" : address.slice(at + 1);
};

/** The height of a frame: that of its page, up to a bound; 0 is no bound. */
export const fitting = (height: number, bound: number): number =>
  Math.max(120, Math.ceil(bound ? Math.min(height, bound) : height));

/** Whether text of this color implies a dark background: red, green and blue from 0 to 255. */
export const bright = ([red, green, blue]: Iterable<number>): boolean => 0.299 * red + 0.587 * green + 0.114 * blue > 127.5;

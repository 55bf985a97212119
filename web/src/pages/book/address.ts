// The state of the book: where a reader is, and what figures and exercises show. It is what stands behind # in the address.

/** at: id of a chapter, a heading or a term; shown: the state of each figure and exercise that differs from the text's, by id. */
export interface Place {
  at: string;
  shown: Record<string, string>;
}

/** "shuffle?love-shuffle=order%3D2%2C0%2C1": an address without a question mark is an ordinary anchor. */
export function toHash({ at, shown }: Place): string {
  const parts = new URLSearchParams(Object.entries(shown).sort(([a], [b]) => (a < b ? -1 : 1)));
  return parts.size ? `${at}?${parts}` : at;
}

export function fromHash(hash: string): Place {
  const [at, ...rest] = hash.replace(/^#/, "").split("?");
  return { at: decoded(at), shown: Object.fromEntries(new URLSearchParams(rest.join("?"))) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The figure that a link of the text acts on: "#love-shuffle?order=2,0,1" sets a field of its state. */
export function actsOn(href: string): string | undefined {
  const found = /^#([^?]+)\?/.exec(href);
  return found ? decoded(found[1]) : undefined;
}

// The state of a page as one plain object: it is the URL, the undo history and the test fixture.
const LARGEST = 1e6; // larger edits could overflow to infinity
/** What every page keeps of how numbers are shown. order: the words' original rows, as they stand.
 * edits: number by cell ("1,0") by pool entry; the words' own numbers stand under "words", by original row. */
export interface Shown {
  order: number[];
  head: number;
  digits: number;
  edits: Record<string, Record<string, number>>;
}

/** What is chosen, as in the page's link. In a frame it is kept in memory: a page there may have no address and no history. */
export const fragment = (): string => document.documentElement.dataset.link ?? location.hash.slice(1);

export const write = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

export function parsed(text: string | null): unknown {
  try {
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function whole(text: string | null, low: number, high: number): number | undefined {
  const value = Number(text);
  return text !== null && Number.isInteger(value) ? Math.min(Math.max(value, low), high) : undefined;
}

export function edits(text: string | null): Shown["edits"] {
  const found = parsed(text);
  const result: Shown["edits"] = Object.create(null);
  if (typeof found !== "object" || found === null) return result;
  for (const [key, cells] of Object.entries(found)) {
    if (typeof cells !== "object" || cells === null) continue;
    const numbers = Object.entries(cells).filter(
      ([cell, v]) => /^\d+(,\d+)*$/.test(cell) && typeof v === "number" && Math.abs(v) <= LARGEST,
    );
    if (numbers.length) result[key] = Object.fromEntries(numbers) as Record<string, number>;
  }
  return result;
}

/** Undo and redo. */
export class History<S> {
  private past: S[] = [];
  private future: S[] = [];

  push(state: S): void {
    this.past.push(structuredClone(state));
    if (this.past.length > 200) this.past.shift();
    this.future = [];
  }

  undo(now: S): S | undefined {
    const before = this.past.pop();
    if (before) this.future.push(structuredClone(now));
    return before;
  }

  redo(now: S): S | undefined {
    const next = this.future.pop();
    if (next) this.past.push(structuredClone(now));
    return next;
  }

  get depth(): number {
    return this.past.length;
  }
}

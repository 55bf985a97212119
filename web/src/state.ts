// The state of the page as one plain object: it is the URL, the undo history and the test fixture.
import type { Explorable } from "./contract";

export const STORIES = ["numbers", "shuffle", "positions", "slide", "clocks", "readouts"] as const;
/** Programs of the tour that show one kind of clocks each. */
export const WAVES = ["ladder", "pair", "sine"] as const;
const LARGEST = 1e6; // larger edits could overflow to infinity
export type StoryName = (typeof STORIES)[number];

/** What every page keeps of how numbers are shown. order: the words' original rows, as they stand.
 * edits: number by cell ("1,0") by pool entry; the words' own numbers stand under "words", by original row. */
export interface Shown {
  order: number[];
  head: number;
  digits: number;
  edits: Record<string, Record<string, number>>;
}

export interface State extends Shown {
  story: StoryName;
  words: string[];
  scheme: string;
  versus: string;
  causal: boolean;
  slide: number;
  position: number;
  step: number;
  waves: string;
}

export function initial(page: Explorable): State {
  return {
    story: "numbers",
    words: page.words,
    order: page.words.map((_, i) => i),
    scheme: page.scheme,
    versus: page.versus,
    causal: page.causal,
    slide: Math.min(11, page.max_positions - Math.min(page.words.length, 8)),
    head: 0,
    digits: 2,
    position: 5,
    step: 5,
    waves: "ladder",
    edits: {},
  };
}

/** What differs from the initial state, as a URL fragment. */
export function toHash(state: State, page: Explorable): string {
  const begin = initial(page);
  const parts = new URLSearchParams();
  for (const key of Object.keys(begin) as (keyof State)[]) {
    if (key === "order") continue;
    if (JSON.stringify(state[key]) !== JSON.stringify(begin[key])) parts.set(key, write(state[key]));
  }
  if (state.order.some((row, i) => row !== i)) parts.set("order", state.order.join(","));
  return parts.toString();
}

export const write = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** The state that a fragment describes; what is invalid keeps its initial value. */
export function fromHash(hash: string, page: Explorable): State {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial(page);
  state.words = words(parts.get("words"), page.limit) ?? state.words;
  state.order = order(parts.get("order"), state.words.length);
  state.story = STORIES.find((s) => s === parts.get("story")) ?? state.story;
  const known = (key: "scheme" | "versus") => page.schemes.find((s) => s.name === parts.get(key))?.name ?? state[key];
  [state.scheme, state.versus] = [known("scheme"), known("versus")];
  state.causal = parts.has("causal") ? parts.get("causal") === "true" : state.causal;
  const limits: ["slide" | "head" | "digits" | "position" | "step", number, number][] = [
    ["slide", 0, page.max_positions],
    ["head", 0, page.heads - 1],
    ["digits", 0, 8],
    ["position", 0, 1000],
    ["step", 0, 64],
  ];
  for (const [key, low, high] of limits) state[key] = whole(parts.get(key), low, high) ?? state[key];
  state.waves = WAVES.find((name) => name === parts.get("waves")) ?? state.waves;
  state.edits = edits(parts.get("edits"));
  return state;
}

function parsed(text: string | null): unknown {
  try {
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function words(text: string | null, limit: number): string[] | undefined {
  const list = parsed(text);
  const fine =
    Array.isArray(list) &&
    list.length > 0 &&
    list.length <= limit &&
    list.every((w) => typeof w === "string" && w.length > 0 && w.length <= 200);
  return fine ? (list as string[]) : undefined;
}

function order(text: string | null, length: number): number[] {
  const rows = (text ?? "").split(",").map(Number);
  const fine =
    rows.length === length && new Set(rows).size === length && rows.every((r) => Number.isInteger(r) && r >= 0 && r < length);
  return fine ? rows : Array.from({ length }, (_, i) => i);
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
export class History<S = State> {
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

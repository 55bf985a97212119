// The state of the page of a sentence.
import type { Explorable } from "../../core/contract";
import { edits, parsed, type Shown, whole, write } from "../../core/state";

export const STORIES = ["numbers", "shuffle", "positions", "slide", "clocks", "readouts"] as const;
/** Programs of the tour that show one kind of clocks each. */
export const WAVES = ["ladder", "pair", "sine"] as const;
/** Values up to which the numbers can be shown. */
export const UNTIL = ["mixed", "output"] as const;
export type StoryName = (typeof STORIES)[number];

/** schemes: those that are compared. until: the role of the last value whose steps are shown. point: the number that is pointed at, as
 * the role or the id of its value, row and column ("mixed:0,1"). */
export interface State extends Shown {
  story: StoryName;
  words: string[];
  scheme: string;
  versus: string;
  schemes: string[];
  until: string;
  point: string;
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
    schemes: page.compared,
    until: "output",
    point: "queries:0,0",
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
    if (key === "order" || key === "schemes") continue;
    if (JSON.stringify(state[key]) !== JSON.stringify(begin[key])) parts.set(key, write(state[key]));
  }
  if (state.order.some((row, i) => row !== i)) parts.set("order", state.order.join(","));
  if (state.schemes.join() !== begin.schemes.join())
    parts.set("schemes", state.schemes.length === page.schemes.length ? "all" : state.schemes.join(","));
  return parts.toString();
}

/** The state that a fragment describes; what is invalid keeps its initial value. */
export function fromHash(hash: string, page: Explorable): State {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial(page);
  state.words = words(parts.get("words"), page.limit) ?? state.words;
  state.order = order(parts.get("order"), state.words.length);
  state.story = STORIES.find((s) => s === parts.get("story")) ?? state.story;
  const known = (key: "scheme" | "versus") => page.schemes.find((s) => s.name === parts.get(key))?.name ?? state[key];
  [state.scheme, state.versus] = [known("scheme"), known("versus")];
  const listed = (parts.get("schemes") ?? "").split(",");
  const chosen = page.schemes.map((s) => s.name).filter((name) => listed[0] === "all" || listed.includes(name));
  if (chosen.length) state.schemes = chosen;
  state.until = UNTIL.find((role) => role === parts.get("until")) ?? state.until;
  state.point = /^[^:]{1,200}:\d{1,6},\d{1,6}$/.test(parts.get("point") ?? "") ? parts.get("point")! : state.point;
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

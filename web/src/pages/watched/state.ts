// The state of a watched program: open modules, how numbers are shown, edited numbers.
import { edits, type Shown, whole, write } from "../../core/state";

/** open: the modules whose steps are shown, by path. */
export interface WatchedState extends Shown {
  open: string[];
}

export const initial = (): WatchedState => ({ open: [], order: [], head: 0, digits: 3, edits: {} });

/** What differs from the initial state, as a URL fragment. */
export function toHash(state: WatchedState): string {
  const [begin, parts] = [initial(), new URLSearchParams()];
  for (const key of Object.keys(begin) as (keyof WatchedState)[])
    if (JSON.stringify(state[key]) !== JSON.stringify(begin[key])) parts.set(key, write(state[key]));
  return parts.toString();
}

/** The state that a fragment describes; what is invalid keeps its initial value. */
export function fromHash(hash: string, modules: string[], heads: number): WatchedState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial();
  state.open = listed(parts.get("open")).filter((path) => modules.includes(path));
  state.head = whole(parts.get("head"), 0, heads - 1) ?? state.head;
  state.digits = whole(parts.get("digits"), 0, 8) ?? state.digits;
  state.edits = edits(parts.get("edits"));
  return state;
}

function listed(text: string | null): string[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter((x) => typeof x === "string") : [];
  } catch {
    return [];
  }
}

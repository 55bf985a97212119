// The state of a drawing: the open box, the chosen action, how numbers are shown, edited numbers.
import type { Drawing } from "../../core/contract";
import { edits, type Shown, whole, write } from "../../core/state";

/** box: the id of the open one, action: the name of the chosen one; empty for none. */
export interface DrawingState extends Shown {
  box: string;
  action: string;
}

export const initial = (): DrawingState => ({ box: "", action: "", order: [], head: 0, digits: 2, edits: {} });

/** What differs from the initial state, as a URL fragment. */
export function toHash(state: DrawingState): string {
  const [begin, parts] = [initial(), new URLSearchParams()];
  for (const key of Object.keys(begin) as (keyof DrawingState)[])
    if (JSON.stringify(state[key]) !== JSON.stringify(begin[key])) parts.set(key, write(state[key]));
  return parts.toString();
}

/** The state that a fragment describes; what is invalid keeps its initial value. */
export function fromHash(hash: string, drawing: Drawing): DrawingState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial();
  state.box = drawing.boxes.find(({ id }) => id === parts.get("box"))?.id ?? "";
  state.action = drawing.claims.find(({ action }) => action === parts.get("action"))?.action ?? "";
  state.head = whole(parts.get("head"), 0, drawing.heads - 1) ?? state.head;
  state.digits = whole(parts.get("digits"), 0, 8) ?? state.digits;
  state.edits = edits(parts.get("edits"));
  return state;
}

// The state of a watched program: open modules, how numbers are shown, edited numbers.
import { digits, edits, field, fixed, json, schema, type Schema, type Shown, whole } from "../../core/state";

/** open: the parts whose steps are shown, by key. */
export interface WatchedState extends Shown {
  open: string[];
}

/** keys: of the parts of the program; heads: how many there are. */
export const stateOf = (keys: string[], heads: number): Schema<WatchedState> =>
  schema<WatchedState>({
    open: field(json((found) => (Array.isArray(found) ? found.filter((key) => keys.includes(key)) : undefined)), [], { history: "none" }), // prettier-ignore
    order: fixed([]),
    head: field(whole(0, heads - 1), 0),
    digits: digits(3),
    edits: edits(),
  });

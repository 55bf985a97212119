// The state of a drawing: the open box, the chosen action, how numbers are shown, edited numbers.
import type { Drawing } from "../../core/contract";
import { choice, digits, edits, field, fixed, schema, type Schema, type Shown, whole } from "../../core/state";

/** box: the id of the open one, action: the name of the chosen one; empty for none. */
export interface DrawingState extends Shown {
  box: string;
  action: string;
}

export const stateOf = (drawing: Drawing): Schema<DrawingState> =>
  schema<DrawingState>({
    box: field(choice(drawing.boxes.map(({ id }) => id)), "", { history: "back" }),
    action: field(choice(drawing.claims.map(({ action }) => action)), "", { history: "back" }),
    order: fixed([]),
    head: field(whole(0, drawing.heads - 1), 0),
    digits: digits(),
    edits: edits(),
  });

// The selection on the page of a comparison.
import { choice, distinct, field, flag, list, only, optional, schema, type Schema, whole } from "../../core/state";

export const BANDS = ["range", "spread", "seeds"] as const;
export const COSTS = ["seconds", "multiply_adds", "parameters", "memory", "tokens"] as const;

export interface CompareState {
  without: number[]; // hidden candidates, counted from 0
  band: (typeof BANDS)[number]; // the range over seeds, the standard deviation, or every seed
  log: boolean; // curves on a logarithmic axis
  end: boolean; // only the second half of training
  far: boolean; // extrapolation on a logarithmic axis
  cost?: (typeof COSTS)[number]; // by default the first that is known
}

/** candidates: how many there are, of which at least one is shown. */
export const stateOf = (candidates: number): Schema<CompareState> =>
  schema<CompareState>({
    without: field(
      only(list(whole(0, candidates - 1)), (all) => distinct(all) && all.length < candidates),
      [],
    ),
    band: field(choice(BANDS), "range"),
    log: field(flag("log", "linear"), false, { key: "axis" }),
    end: field(flag("end", "all"), false, { key: "steps" }),
    far: field(flag("log", "linear"), false, { key: "extrapolation" }),
    cost: optional(choice(COSTS)),
  });

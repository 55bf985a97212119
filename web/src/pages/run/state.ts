// The selection on the page of a run.
import { choice, field, flag, optional, pair, schema, type Schema, whole } from "../../core/state";

export const OVERS = ["steps", "time"] as const;

export interface RunState {
  log: boolean; // the loss on a logarithmic axis
  over: (typeof OVERS)[number];
  smooth: number; // steps of the running mean; 0: by the length of the run
  at?: number; // samples and attention after this step; by default the last
  head?: [number, number]; // layer and head that are enlarged
}

const count = whole(0, 1e12 - 1);

export const state: Schema<RunState> = schema<RunState>({
  log: field(flag("log", "linear"), false, { key: "axis" }),
  over: field(choice(OVERS), "steps"),
  smooth: field(count, 0),
  at: optional(count, { history: "none" }),
  head: optional(pair(whole(0, 9999))),
});

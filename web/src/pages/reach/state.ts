// The selection on the page of reach. It is the link to the page.
import type { Reach } from "../../core/contract";
import { whole } from "../../core/state";

export const WEIGHTS = ["random", "trained"] as const;
export type Weights = (typeof WEIGHTS)[number];
const SHORTEST = 4;

/** weights: before or after training. length: of the text. token: the one that is replaced. timed: length of the text in the timing. */
export interface ReachState {
  weights: Weights;
  length: number;
  token: number;
  timed: number;
}

export const shortest = (record: Reach): number => Math.min(SHORTEST, record.length);

export const initial = (record: Reach): ReachState => ({
  weights: "random",
  length: record.length,
  token: Math.floor(record.length / 2),
  timed: record.timed_lengths.find((length) => length >= record.length) ?? record.timed_lengths[0],
});

export function toHash(state: ReachState, record: Reach): string {
  const begin = initial(record);
  const parts = new URLSearchParams();
  for (const key of Object.keys(begin) as (keyof ReachState)[]) if (state[key] !== begin[key]) parts.set(key, String(state[key]));
  return parts.toString();
}

/** The state of a fragment; what is invalid keeps its initial value. A token beyond the text is its last one. */
export function fromHash(hash: string, record: Reach): ReachState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initial(record);
  state.weights = WEIGHTS.find((one) => one === parts.get("weights")) ?? state.weights;
  state.length = whole(parts.get("length"), shortest(record), record.length) ?? state.length;
  state.token = whole(parts.get("token"), 0, record.length - 1) ?? state.token;
  state.timed = record.timed_lengths.find((length) => String(length) === parts.get("timed")) ?? state.timed;
  return within(state);
}

/** The same state with its token inside the text. */
export const within = (state: ReachState): ReachState => ({ ...state, token: Math.min(state.token, state.length - 1) });

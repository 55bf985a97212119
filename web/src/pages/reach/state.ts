// The state of the page of reach.
import type { Reach } from "../../core/contract";
import { choice, type Code, field, schema, type Schema, whole } from "../../core/state";

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

export function stateOf(record: Reach): Schema<ReachState> {
  const timed = record.timed_lengths.find((length) => length >= record.length) ?? record.timed_lengths[0];
  const inside = (length: number): Code<number> => ({
    write: String,
    read(text) {
      const token = whole(0, record.length - 1).read(text);
      return token === undefined ? undefined : Math.min(token, length - 1); // a token beyond the text is its last one
    },
  });
  return schema<ReachState>({
    weights: field(choice(WEIGHTS), "random"),
    length: field(whole(shortest(record), record.length), record.length),
    token: field(
      ({ length }) => inside(length),
      ({ length }) => Math.min(Math.floor(record.length / 2), length - 1),
      { history: "none" },
    ),
    timed: field(choice(record.timed_lengths), timed),
  });
}

// The state of the page of an answer. score: its number among the record's; token: the one that is chosen; order: of the parts.
// after: the token after which the answer is read; answer: its number among the outputs; a server computes other ones.
import type { Attribution } from "../../core/contract";
import { choice, field, optional, schema, type Schema, whole } from "../../core/state";

export const ORDERS = ["pass", "size"] as const;
const MOST = 1e9; // outputs of a model

export interface AttributionState {
  after: number | undefined;
  answer: number | undefined;
  score: number;
  token: number | undefined;
  order: (typeof ORDERS)[number];
}

export function stateOf(record: Attribution): Schema<AttributionState> {
  const names = record.scores.map((_, i) => i);
  const last = record.sequence.labels.length - 1;
  return schema<AttributionState>({
    after: optional(whole(0, tokensAfter(record).length - 1)),
    answer: optional(whole(0, MOST)),
    score: field(
      choice(names),
      Math.max(
        0,
        record.scores.findIndex(({ name }) => name === "rollout"),
      ),
    ),
    token: optional(whole(0, last), { history: "none" }),
    order: field(choice(ORDERS), "pass"),
  });
}

/** Labels of the tokens after which the model answers; none where it has one answer. */
export const tokensAfter = (record: Attribution): string[] => (record.lens_best ? (record.answers ?? record.sequence).labels : []);

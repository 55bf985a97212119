// The state of the page of an answer. score: its number among the record's; token: the one that is chosen; order: of the parts.
import type { Attribution } from "../../core/contract";
import { choice, field, optional, schema, type Schema } from "../../core/state";

export const ORDERS = ["pass", "size"] as const;

export interface AttributionState {
  score: number;
  token: number | undefined;
  order: (typeof ORDERS)[number];
}

export function stateOf(record: Attribution): Schema<AttributionState> {
  const names = record.scores.map((_, i) => i);
  return schema<AttributionState>({
    score: field(
      choice(names),
      Math.max(
        0,
        record.scores.findIndex(({ name }) => name === "rollout"),
      ),
    ),
    token: optional(choice(record.tokens), { history: "none" }),
    order: field(choice(ORDERS), "pass"),
  });
}

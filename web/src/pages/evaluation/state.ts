// The state of an evaluation: which part of the data is shown.
import type { EvaluationRecord } from "../../core/contract";
import { choice, field, schema, type Schema } from "../../core/state";

export interface EvaluationState {
  part: string;
}

/** At first the test part is shown, where there is one: the validation part chose the weights. */
export const stateOf = ({ parts }: EvaluationRecord): Schema<EvaluationState> => {
  const names = parts.map(({ part }) => part);
  return schema<EvaluationState>({ part: field(choice(names), names.find((name) => name === "test") ?? names[0] ?? "") });
};

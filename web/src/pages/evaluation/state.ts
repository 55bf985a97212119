// The state of an evaluation: which part of the data is shown.
import type { EvaluationRecord } from "../../core/contract";
import { choice, field, schema, type Schema } from "../../core/state";

export interface EvaluationState {
  part: string;
}

/** At first the last part is shown: a test part stands behind the validation part, which chose the weights. */
export const stateOf = ({ parts }: EvaluationRecord): Schema<EvaluationState> =>
  schema<EvaluationState>({ part: field(choice(parts.map(({ part }) => part)), parts.at(-1)?.part ?? "") });

// Replay: a trace after something a person did to it, every number by id. The page's stories do the same bit by bit; tests
// call this one, outside the browser and inside, to hold both runtimes to the golden programs.
import { type Action, permute, reverse, shift } from "./actions";
import type { ProgramRecord } from "./contract";
import { evaluate, leavesOf, Program } from "./program";
import { edited, type Tensor } from "./tensor";

export interface Act {
  permute?: number[];
  shift?: number;
  reverse?: boolean;
}

export interface Edit {
  leaf: string;
  index: number[];
  value: number;
}

/** First the action, then the edits. Kind: the class of the program, `Watched` where it has loops. */
export function replay(programRecord: ProgramRecord, act: Act, edits: Edit[] = [], Kind = Program): Map<string, Tensor> {
  const leaves = actions(act).reduce((given, action) => action.onInput(programRecord, given), leavesOf(programRecord));
  for (const { leaf, index, value } of edits) leaves.set(leaf, edited(leaves.get(leaf)!, index, value));
  return evaluate(programRecord, leaves, {}, Kind);
}

const actions = (act: Act): Action[] => [
  ...(act.permute ? [permute(act.permute)] : []),
  ...(act.shift ? [shift(act.shift)] : []),
  ...(act.reverse ? [reverse()] : []),
];

// The desk of a watched program: the steps of any module, each number of which can be edited.
import { Desk, type Run } from "../../core/desk";
import type { ProgramRecord } from "../../core/contract";
import { type Name, numbered } from "../../core/names";
import { leavesOf } from "../../core/program";
import { changed, type Tensor } from "../../core/tensor";
import { type Cells, Watched } from "./program";
import { stateOf, type WatchedState } from "./state";

const NAMED = 64; // longer axes are not numbered

export class WatchedDesk extends Desk<WatchedState> {
  private readonly given: Map<string, Tensor>;
  private readonly kept: Run & { program: Watched };
  private readonly steps: Set<string>;
  private followed: WatchedState["edits"] | undefined;

  constructor(
    readonly programRecord: ProgramRecord,
    keys: string[],
    heads: number,
  ) {
    super(stateOf(keys, heads));
    this.given = leavesOf(programRecord);
    this.steps = new Set(programRecord.steps.map(({ id }) => id));
    const leaves = new Map(this.given);
    const record = { scheme: "", setting: "", program: programRecord, claims: [], roles: {} };
    this.kept = { record, program: new Watched(programRecord, leaves), leaves, free: true };
  }

  /** Tokens are numbered from 0; other axes have no names. */
  names(axis: string, length: number): Name[] | undefined {
    return axis === "token" && length <= NAMED ? numbered(Array.from({ length }, (_, i) => i)) : undefined;
  }

  /** The program with the edited numbers. */
  get run(): Run {
    const { edits } = this.state;
    if (this.followed !== edits) {
      this.kept.program.change([...this.given].map(([id, t]): [string, Tensor] => [id, changed(t, edits[id])]));
      const held = Object.entries(edits).filter(([id]) => this.steps.has(id));
      this.kept.program.hold(Object.fromEntries(held) as Record<string, Cells>);
      this.followed = edits;
    }
    return this.kept;
  }
}

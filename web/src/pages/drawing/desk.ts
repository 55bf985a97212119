// The desk of a drawing: one traced program, and names for the rows and columns of its numbers.
import { behindClass, Desk, type Run } from "../../core/desk";
import type { Box, Drawing, LeafRecord } from "../../core/contract";
import { COLOURS, type Name } from "../../core/names";
import { leavesOf, poolOf, Program } from "../../core/program";
import { changed, type Tensor } from "../../core/tensor";
import { type DrawingState, stateOf } from "./state";

export class DrawingDesk extends Desk<DrawingState> {
  private readonly kept: Run;
  private readonly given: Map<string, Tensor>;
  private followed: DrawingState | undefined;

  constructor(readonly drawing: Drawing) {
    super(stateOf(drawing));
    const { program: programRecord } = drawing;
    this.given = leavesOf(programRecord, poolOf(drawing.pool));
    const leaves = new Map(this.given);
    this.kept = {
      record: { scheme: "", setting: "", program: programRecord, claims: [], roles: {} },
      program: new Program(programRecord, leaves),
      leaves,
    };
  }

  /** Words of the input, cells of a picture, words of the vocabulary: a colour each, the same for the same name. */
  names(axis: string, length: number): Name[] | undefined {
    const names = this.drawing.axis_names[axis];
    if (!names) return undefined;
    const known = [...new Set(Object.values(this.drawing.axis_names).flat())];
    return behindClass(
      names.map((text) => ({ text, colour: known.indexOf(text) % COLOURS })),
      length,
    );
  }

  /** The program, with the numbers that a person changed. */
  get run(): Run {
    if (this.followed?.edits !== this.state.edits) {
      const own = (leaf: LeafRecord): [string, Tensor] => [
        leaf.id,
        changed(this.given.get(leaf.id)!, this.state.edits[leaf.pool!]),
      ];
      this.kept.program.change(this.drawing.program.leaves.map(own));
    }
    this.followed = this.state;
    return this.kept;
  }

  open(box: Box): void {
    this.set({ box: box.id }, { structure: true });
    const heading = document.getElementById("opened");
    heading?.focus({ preventScroll: true });
    const far = heading?.getBoundingClientRect();
    if (far && (far.top < 0 || far.top > innerHeight * 0.7)) heading!.scrollIntoView({ block: "start", behavior: calm() });
  }

  close(): void {
    const box = this.state.box;
    this.set({ box: "" }, { structure: true });
    const one = document.querySelector<SVGElement>(`.architecture [data-box="${CSS.escape(box)}"]`);
    one?.focus();
  }
}

export const calm = (): ScrollBehavior => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

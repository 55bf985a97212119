// A program's numbers after an action on them: g f(X), to stand beside f(gX). It computes nothing but the program itself.
import type { Action } from "./actions";
import type { Run } from "./desk";
import { type Operands, type Place, Program } from "./program";
import type { Tensor } from "./tensor";

class Moved extends Program {
  private readonly known = new WeakMap<Tensor, Tensor>();

  constructor(
    private readonly inner: Program,
    private readonly action: Action,
    private readonly order: number[],
  ) {
    super(inner.programRecord, new Map());
  }

  override get(id: string): Tensor {
    const plain = this.inner.get(id);
    const found = this.known.get(plain) ?? this.action.onOutput(plain, this.axes(id));
    this.known.set(plain, found);
    return found;
  }

  override operands(id: string, index: number[]): Operands | undefined {
    const found = this.inner.operands(
      id,
      this.along(id, index, (at) => this.order[at]),
    );
    const placed = (place: Place): Place => ({
      ...place,
      index: this.along(place.id, place.index, (row) => this.order.indexOf(row)),
    });
    return (
      found && { ...found, terms: found.terms.map((term) => ("id" in term ? placed(term) : term)), more: found.more.map(placed) }
    );
  }

  private axes(id: string): string[] {
    const { steps, leaves } = this.programRecord;
    return (steps.find((step) => step.id === id) ?? leaves.find((leaf) => leaf.id === id))!.axes;
  }

  private along(id: string, index: number[], of: (at: number) => number): number[] {
    const axes = this.axes(id);
    return index.map((at, axis) => (axes[axis] === "token" ? of(at) : at));
  }
}

/** A run whose numbers are moved by an action on tokens; order[i] is the row that now stands at i. */
export const moved = (run: Run, action: Action, order: number[]): Run => ({
  ...run,
  program: new Moved(run.program, action, order),
  source: undefined,
});

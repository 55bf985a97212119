// The program of any module: loop steps run as compiled computations, and the numbers of a step can be set by hand.
import { computation, type Run } from "../../core/computation";
import type { StepRecord } from "../../core/contract";
import { Program } from "../../core/program";
import { changed, tensor, type Tensor } from "../../core/tensor";

/** Numbers by cell, "1,0". */
export type Cells = Record<string, number>;

export class Watched extends Program {
  private held: Record<string, Cells> = {};
  private readonly machines = new Map<string, Run>();

  /** Set numbers of steps by hand, by id and cell; they override what the inputs give. */
  hold(cells: Record<string, Cells>): void {
    for (const id of Object.keys({ ...this.held, ...cells })) if (this.held[id] !== cells[id]) this.memos.delete(id);
    this.held = cells;
    this.version++;
  }

  protected override compute(step: StepRecord, inputs: Tensor[]): Tensor {
    return changed(step.loops ? this.looped(step, inputs) : super.compute(step, inputs), this.held[step.id]);
  }

  private looped(step: StepRecord, inputs: Tensor[]): Tensor {
    const loops = step.loops!;
    const machine = this.machines.get(step.id) ?? computation(loops);
    this.machines.set(step.id, machine);
    return tensor(loops.outputs.y.shape, machine(Object.fromEntries(inputs.map((x, i) => [`x${i}`, x.data]))).y);
  }
}

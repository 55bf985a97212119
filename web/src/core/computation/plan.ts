// Which steps some outputs need, and where in one heap each slot lies while it is needed: places are taken again after the last
// step that reads them, so that the heap stays small and near.
import type { Computation, Loop } from "../contract";
import { compiled } from "./loops";

export interface Plan {
  heap: Float64Array;
  begins: ReadonlyMap<number, number>; // of each slot in the heap
  steps: (() => void)[];
}

/** The steps of the record that the wanted outputs need, prepared for a run. */
export function plan(record: Computation, wanted: string[], constants: ReadonlyMap<number, Float64Array>): Plan {
  const steps = needed(record, wanted);
  const last = lastReads(steps);
  for (const name of wanted) last.set(record.outputs[name].slot, Infinity);
  const begins = new Map<number, number>();
  const room = new Room();
  const literals = new Map<number, number>();
  for (const step of steps) {
    for (const operand of step.of) {
      if (typeof operand === "number") literals.has(operand) || literals.set(operand, room.take(1));
      else if (constants.has(operand[0]) && !begins.has(operand[0])) begins.set(operand[0], room.take(record.sizes[operand[0]]));
    }
  }
  for (const { slot } of Object.values(record.inputs)) begins.set(slot, room.take(record.sizes[slot]));
  const fixed = new Set(begins.keys());
  steps.forEach((step, now) => {
    const slot = step.to[0];
    if (!begins.has(slot)) begins.set(slot, room.take(record.sizes[slot]));
    for (const other of new Set(slotsOf(step))) {
      if (!fixed.has(other) && (last.get(other) ?? now) <= now) room.give(begins.get(other)!, record.sizes[other]);
    }
  });
  const heap = new Float64Array(room.size);
  for (const [number, place] of literals) heap[place] = number;
  for (const [slot, data] of constants) if (begins.has(slot)) heap.set(data, begins.get(slot));
  return { heap, begins, steps: steps.map((step) => compiled(heap, placed(step, begins, literals), record.sizes[step.to[0]])) };
}

function needed(record: Computation, wanted: string[]): Loop[] {
  const slots = new Set(wanted.map((name) => record.outputs[name].slot));
  const kept: Loop[] = [];
  for (const step of [...record.steps].reverse()) {
    if (!slots.has(step.to[0])) continue;
    kept.push(step);
    for (const operand of step.of) if (typeof operand !== "number") slots.add(operand[0]);
  }
  return kept.reverse();
}

const slotsOf = (step: Loop): number[] => [
  step.to[0],
  ...step.of.flatMap((operand) => (typeof operand === "number" ? [] : [operand[0]])),
];

/** When each slot is touched for the last time. */
function lastReads(steps: Loop[]): Map<number, number> {
  const last = new Map<number, number>();
  steps.forEach((step, now) => slotsOf(step).forEach((slot) => last.set(slot, now)));
  return last;
}

/** A step with offsets into the heap for slots and numbers. */
function placed(step: Loop, begins: ReadonlyMap<number, number>, literals: ReadonlyMap<number, number>): Placed {
  const view = ([slot, offset, ...strides]: number[]): View => ({ begin: begins.get(slot)! + offset, strides });
  const literal = (number: number): View => ({ begin: literals.get(number)!, strides: step.shape.map(() => 0) });
  const of = step.of.map((operand) => (typeof operand === "number" ? literal(operand) : view(operand)));
  return { op: step.op, shape: step.shape, to: view(step.to), of, whole: begins.get(step.to[0])! };
}

export interface View {
  begin: number;
  strides: number[];
}

export interface Placed {
  op: string;
  shape: number[];
  to: View;
  of: View[];
  whole: number; // where the slot that is written begins
}

/** Places in a heap: the smallest gap that is wide enough, or the end. */
class Room {
  size = 0;
  private gaps: [number, number][] = []; // begin and length, in order, never side by side

  take(length: number): number {
    const best = this.gaps.reduce((best, [, free], i) => (free >= length && !(this.gaps[best]?.[1] <= free) ? i : best), -1);
    if (best < 0) {
      this.size += length;
      return this.size - length;
    }
    const [begin, free] = this.gaps[best];
    this.gaps.splice(best, 1, ...(free > length ? [[begin + length, free - length] as [number, number]] : []));
    return begin;
  }

  give(begin: number, length: number): void {
    if (!length) return;
    const after = this.gaps.findIndex(([other]) => other > begin);
    this.gaps.splice(after < 0 ? this.gaps.length : after, 0, [begin, length]);
    this.gaps = this.gaps.reduce<[number, number][]>((joined, [at, free]) => {
      const before = joined.at(-1);
      if (before && before[0] + before[1] === at) before[1] += free;
      else joined.push([at, free]);
      return joined;
    }, []);
  }
}

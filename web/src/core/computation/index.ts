// A computation: a function of tensors that Python wrote down as steps, run in float64 without knowing what it computes.
//
//   const model = computation(record);
//   const { energy, forces } = model({ positions }, ["energy", "forces"]);   // only the steps that these need
import type { Computation } from "../contract";
import { size, unpack } from "../tensor";
import { type Plan, plan } from "./plan";

export type Numbers = Record<string, Float64Array>;

/** Inputs by name, row by row, to outputs: new arrays each time. wanted: which outputs, default all. */
export type Run = (inputs: Numbers, wanted?: string[]) => Numbers;

/** Throws, when it is run, for an input or output that the record does not have, and for numbers that do not fill a shape. */
export function computation(record: Computation): Run {
  const constants = new Map(record.constants.map(({ slot, array }) => [slot, unpack(array).data]));
  const plans = new Map<string, Plan>();
  const planned = (wanted: string[]): Plan => {
    const key = wanted.join("\n");
    const found = plans.get(key) ?? plan(record, wanted, constants);
    plans.set(key, found);
    return found;
  };
  return (inputs, wanted = Object.keys(record.outputs)) => {
    for (const name of wanted) known("output", name, record.outputs);
    for (const name of Object.keys(inputs)) known("input", name, record.inputs);
    const { heap, begins, steps } = planned(wanted);
    for (const [name, { slot, shape }] of Object.entries(record.inputs)) {
      if (inputs[name]?.length !== size(shape)) {
        throw new Error(`Input '${name}' has shape [${shape}], ${size(shape)} numbers, but got ${inputs[name]?.length ?? "none"}.`);
      }
      if (begins.has(slot)) heap.set(inputs[name], begins.get(slot));
    }
    for (const step of steps) step();
    const read = (name: string) => {
      const { slot, shape } = record.outputs[name];
      return heap.slice(begins.get(slot)!, begins.get(slot)! + size(shape));
    };
    return Object.fromEntries(wanted.map((name) => [name, read(name)]));
  };
}

function known(what: string, name: string, places: object): void {
  if (!Object.hasOwn(places, name)) {
    throw new Error(`There is no ${what} called '${name}'. Known: ${Object.keys(places).join(", ")}.`);
  }
}

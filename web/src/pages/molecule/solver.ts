// A model of the record as a function of positions.
import { computation } from "../../core/computation";
import type { Solver } from "../../core/contract";

export interface Answers {
  energy: number;
  each: Float64Array;
  forces: Float64Array;
  weights: Float64Array;
  arrows?: Float64Array;
}
export interface Question {
  solver: number;
  key: string; // a newer request with the same key replaces this one
  positions: Float64Array;
  about: { still: string; by: readonly number[]; degrees: number; mirrored: boolean }; // the geometry and its rotation
}

export type ModelFunction = (positions: Float64Array) => Answers;

/** A model of the record as a function of positions [N·3]. */
export function solver({ computation: record }: Solver): ModelFunction {
  const run = computation(record);
  const asked = ["energy", "each", "forces", "weights", ...("arrows" in record.outputs ? ["arrows"] : [])];
  return (positions) => {
    const { energy, each, forces, weights, arrows } = run({ positions }, asked);
    return { energy: energy[0], each, forces, weights, arrows };
  };
}

// The measured invariance and equivariance of a model: its outputs after rotation against those before.
import type { ModelState } from "./desk";
import type { Solver } from "../../core/contract";
import { scientific } from "../../core/format";
import { rotated } from "./rotation";

const EPS = 2 ** -52;
const ROOM = 100; // a difference up to so many rounding floors holds: the floor is measured at a few rotations only

export interface Measured {
  energy: { before: number; now: number; difference: number; floor: number; holds: boolean };
  each: { difference: number; floor: number; holds: boolean };
  forces: { difference: number; floor: number; holds: boolean }; // relative to the size of the forces
}

export function measure(solver: Solver, known: ModelState): Measured | undefined {
  const { still, now, by } = known;
  if (!still || !now) return undefined;
  const floors = solver.floors as Record<string, number>;
  const judged = (difference: number, floor: number) => ({ difference, floor, holds: difference <= ROOM * floor });
  const energy = Math.abs(now.energy - still.energy);
  let [each, largest] = [0, 0];
  for (let i = 0; i < still.each.length; i++) {
    each = Math.max(each, Math.abs(now.each[i] - still.each[i]));
    largest = Math.max(largest, Math.abs(still.each[i]));
  }
  return {
    energy: { before: still.energy, now: now.energy, ...judged(energy, Math.max(floors.energy, EPS * Math.abs(still.energy))) },
    each: judged(each, Math.max(floors.each, EPS * largest)),
    forces: judged(relativeError(now.forces, rotated(still.forces, by)), Math.max(floors.forces, EPS)),
  };
}

/** A difference; small ones as powers of ten. */
export const gap = (value: number): string => (value < 1e-3 ? scientific(value) : String(Number(value.toPrecision(3))));

/** Relative error ‖found − wanted‖ / ‖wanted‖; 0 where both are 0. */
export function relativeError(found: Float64Array, wanted: Float64Array): number {
  let [difference, whole] = [0, 0];
  for (let i = 0; i < wanted.length; i++) {
    difference += (found[i] - wanted[i]) ** 2;
    whole += wanted[i] ** 2;
  }
  return difference === 0 ? 0 : whole > 0 ? Math.sqrt(difference / whole) : Infinity;
}

/** One channel of the vector features: [N·3] of [N, 3, C]. */
export function channel(arrows: Float64Array, which: number, channels: number): Float64Array {
  const out = new Float64Array(arrows.length / channels);
  for (let i = 0; i < out.length; i++) out[i] = arrows[i * channels + which];
  return out;
}

/** The attention weights of an atom in one head: a row [N] of [layers, heads, N, N]. */
export function row(weights: Float64Array, atoms: number, heads: number, layer: number, head: number, atom: number): Float64Array {
  const begin = ((layer * heads + head) * atoms + atom) * atoms;
  return weights.slice(begin, begin + atoms);
}

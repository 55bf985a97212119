// What is measured of a model: how far its answers for the turned molecule are from its answers for the molecule as it stood.
import type { Known } from "./desk";
import type { Solver } from "../contract";
import { scientific } from "../format";
import { turned } from "./rotation";

const EPS = 2 ** -52;
const ROOM = 100; // rounding floors that a difference may have: a drag changes a floor, and its measurement is one of a few turns

export interface Measured {
  energy: { before: number; now: number; difference: number; floor: number; stays: boolean };
  each: { difference: number; floor: number; stays: boolean };
  forces: { difference: number; floor: number; stays: boolean }; // relative to the size of the forces
}

export function measured(solver: Solver, known: Known): Measured | undefined {
  const { still, now, by } = known;
  if (!still || !now) return undefined;
  const floors = solver.floors as Record<string, number>;
  const judged = (difference: number, floor: number) => ({ difference, floor, stays: difference <= ROOM * floor });
  const energy = Math.abs(now.energy - still.energy);
  let [each, largest] = [0, 0];
  for (let i = 0; i < still.each.length; i++) {
    each = Math.max(each, Math.abs(now.each[i] - still.each[i]));
    largest = Math.max(largest, Math.abs(still.each[i]));
  }
  return {
    energy: { before: still.energy, now: now.energy, ...judged(energy, Math.max(floors.energy, EPS * Math.abs(still.energy))) },
    each: judged(each, Math.max(floors.each, EPS * largest)),
    forces: judged(apart(now.forces, turned(still.forces, by)), Math.max(floors.forces, EPS)),
  };
}

/** A difference as a person reads it: tiny ones as powers of ten. */
export const gap = (value: number): string => (value < 1e-3 ? scientific(value) : String(Number(value.toPrecision(3))));

/** Size of the difference over the size of what was wanted; 0 where nothing was, and nothing is. */
export function apart(found: Float64Array, wanted: Float64Array): number {
  let [difference, whole] = [0, 0];
  for (let i = 0; i < wanted.length; i++) {
    difference += (found[i] - wanted[i]) ** 2;
    whole += wanted[i] ** 2;
  }
  return difference === 0 ? 0 : whole > 0 ? Math.sqrt(difference / whole) : Infinity;
}

/** One of the arrows that an atom carries: [N·3] of [N, 3, C]. */
export function channel(arrows: Float64Array, which: number, channels: number): Float64Array {
  const out = new Float64Array(arrows.length / channels);
  for (let i = 0; i < out.length; i++) out[i] = arrows[i * channels + which];
  return out;
}

/** Whom an atom looks at, in one head: a row [N] of [layers, heads, N, N]. */
export function row(weights: Float64Array, atoms: number, heads: number, layer: number, head: number, atom: number): Float64Array {
  const begin = ((layer * heads + head) * atoms + atom) * atoms;
  return weights.slice(begin, begin + atoms);
}

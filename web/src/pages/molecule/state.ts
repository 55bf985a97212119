// The state of the molecule page. It is the link to the page and the undo history.
import type { Molecule } from "../../core/contract";
import { whole } from "../../core/state";
import { DEGREE, rotationAbout, type Three, type Rotation, unit } from "./rotation";

/** left, right: names of the models. moved: displacements of atoms in Å, before rotation.
 * arrows: "forces", "none", or the index of a learned vector. atom: the chosen one, -1 for none. */
export interface MoleculeState {
  frame: number;
  rotation: Rotation;
  mirror: boolean;
  moved: Record<number, Three>;
  atom: number;
  left: string;
  right: string;
  arrows: string;
  layer: number;
  head: number;
  labels: boolean;
  curve: "energies" | "forces";
}

/** Where the page begins: rotated, so that what a rotation changes is seen at once. */
export const START: Rotation = rotationAbout([0.25, 1, 0.1], 50 * DEGREE);
export const FAR = 3; // Å, the largest displacement of an atom

export function initial(record: Molecule): MoleculeState {
  const [first, last] = [record.solvers[0], record.solvers.at(-1)!];
  return {
    frame: record.frame,
    rotation: START,
    mirror: false,
    moved: {},
    atom: -1,
    left: first.name,
    right: last.name,
    arrows: "forces",
    layer: 0,
    head: 0,
    labels: record.atoms.length <= 30,
    curve: "energies",
  };
}

/** What differs from the initial state, as a URL fragment. Frames, atoms, layers and heads are counted from 0. */
export function toHash(state: MoleculeState, record: Molecule): string {
  const [begin, parts] = [initial(record), new URLSearchParams()];
  if (state.frame !== begin.frame) parts.set("frame", String(state.frame));
  if (String(state.rotation) !== String(begin.rotation))
    parts.set("rotation", state.rotation.map((part) => part.toFixed(5)).join(","));
  if (state.mirror) parts.set("mirror", "on");
  if (state.atom >= 0) parts.set("atom", String(state.atom));
  for (const name of ["left", "right", "curve"] as const) if (state[name] !== begin[name]) parts.set(name, state[name]);
  if (state.arrows !== begin.arrows) parts.set("vectors", state.arrows);
  for (const name of ["layer", "head"] as const) if (state[name]) parts.set(name, String(state[name]));
  if (state.labels !== begin.labels) parts.set("labels", state.labels ? "on" : "off");
  const moved = Object.entries(state.moved).map(([atom, by]) => [Number(atom), ...by.map((part) => part.toFixed(3))].join(","));
  if (moved.length) parts.set("moved", moved.join(";"));
  return parts.toString();
}

/** The state that a fragment describes; what is invalid keeps its initial value. */
export function fromHash(hash: string, record: Molecule): MoleculeState {
  const [parts, state] = [new URLSearchParams(hash.replace(/^#/, "")), initial(record)];
  const known = (name: "left" | "right") => record.solvers.find((one) => one.name === parts.get(name))?.name ?? state[name];
  const [layer, head] = (["layer", "head"] as const).map((name) => whole(parts.get(name), 0, Math.max(...record.solvers.map((one) => one[`${name}s`])) - 1) ?? 0); // prettier-ignore
  const arrows = parts.get("vectors") ?? "";
  const many = Math.max(...record.solvers.map((one) => one.vectors));
  return {
    ...state,
    frame: whole(parts.get("frame"), 0, record.captions.length - 1) ?? state.frame,
    rotation: rotationOf(parts.get("rotation")),
    mirror: parts.get("mirror") === "on",
    moved: movedOf(parts.get("moved"), record.atoms.length),
    atom: whole(parts.get("atom"), 0, record.atoms.length - 1) ?? state.atom,
    left: known("left"),
    right: known("right"),
    arrows: arrows === "none" || (/^\d{1,4}$/.test(arrows) && Number(arrows) < many) ? arrows : "forces",
    layer,
    head,
    labels: parts.has("labels") ? parts.get("labels") === "on" : state.labels,
    curve: parts.get("curve") === "forces" ? "forces" : "energies",
  };
}

function rotationOf(text: string | null): Rotation {
  const found = numbers(text, ",");
  return found.length === 4 && found.some((part) => part !== 0) ? unit(found as unknown as Rotation) : START;
}

function movedOf(text: string | null, atoms: number): Record<number, Three> {
  const displacements: Record<number, Three> = {};
  for (const one of (text ?? "").split(";")) {
    const [atom, ...by] = numbers(one, ",");
    if (by.length === 3 && Number.isInteger(atom) && atom >= 0 && atom < atoms) displacements[atom] = near(by as unknown as Three);
  }
  return displacements;
}

/** No further than FAR. */
export function near(by: Three): Three {
  const size = Math.hypot(...by);
  return size > FAR ? (by.map((part) => (part * FAR) / size) as unknown as Three) : by;
}

function numbers(text: string | null, between: string): number[] {
  const found = (text ?? "").split(between).map((part) => (part.trim() === "" ? NaN : Number(part)));
  return found.every(Number.isFinite) ? found : [];
}

// The state of the molecule page.
import type { Molecule } from "../../core/contract";
import { choice, type Code, field, flag, list, real, schema, type Schema, whole } from "../../core/state";
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

/** Frames, atoms, layers and heads are counted from 0. */
export function stateOf(record: Molecule): Schema<MoleculeState> {
  const [first, last] = [record.solvers[0], record.solvers.at(-1)!];
  const most = (of: "layers" | "heads" | "vectors") => Math.max(...record.solvers.map((one) => one[of]));
  const model = choice(record.solvers.map(({ name }) => name));
  const vectors = ["forces", "none", ...Array.from({ length: most("vectors") }, (_, i) => String(i))];
  return schema<MoleculeState>({
    frame: field(whole(0, record.captions.length - 1), record.frame),
    rotation: field(rotation, START),
    mirror: field(flag(), false),
    atom: field(whole(0, record.atoms.length - 1), -1, { history: "none" }),
    left: field(model, first.name),
    right: field(model, last.name),
    curve: field(choice(["energies", "forces"]), "energies", { history: "back" }),
    arrows: field(choice(vectors), "forces", { key: "vectors", history: "back" }),
    layer: field(whole(0, most("layers") - 1), 0, { history: "back" }),
    head: field(whole(0, most("heads") - 1), 0, { history: "back" }),
    labels: field(flag(), record.atoms.length <= 30, { history: "back" }),
    moved: field(moved(record.atoms.length), {}),
  });
}

/** The four numbers of a quaternion. */
const rotation: Code<Rotation> = {
  write: (value) => value.map((part) => part.toFixed(7)).join(","),
  read(text) {
    const found = list(real(-1e9, 1e9), ",").read(text);
    return found?.length === 4 && found.some((part) => part !== 0) ? unit(found as unknown as Rotation) : undefined;
  },
};

/** "2,0.1,0,-0.5;…": an atom and its displacement. */
const moved = (atoms: number): Code<Record<number, Three>> => ({
  write: (value) => Object.entries(value).map((one) => one.flat().join(",")).join(";"), // prettier-ignore
  read: (text) =>
    Object.fromEntries(
      text.split(";").flatMap((one) => {
        const [atom, ...by] = list(real(-1e9, 1e9), ",").read(one) ?? [];
        return by.length === 3 && Number.isInteger(atom) && atom >= 0 && atom < atoms ? [[atom, near(by as unknown as Three)]] : [];
      }),
    ),
});

/** No further than FAR. */
export function near(by: Three): Three {
  const size = Math.hypot(...by);
  return size > FAR * (1 + 1e-12) ? (by.map((part) => (part * FAR) / size) as unknown as Three) : by;
}

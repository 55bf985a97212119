// What the exercises of the book ask of this page, marked on the outputs of the models.
import type { Marked } from "../../core/goals";
import { gap, measure } from "./equivariance";
import type { MoleculeDesk } from "./desk";
import { degrees } from "./rotation";

type Chosen = Pick<MoleculeDesk, "state" | "known" | "solver" | "model">;

const FAR = 90; // degrees
const APART = 0.5; // Å
const WAIT: Marked = { right: false, says: "The models have not finished computing." };

/** A difference of energies, with its unit where it has one. */
const energy = (by: number, { unit }: { unit: string }): string => `${gap(by)} ${unit}`.trim();

/** The model on the left, and what was measured of it. */
function left(desk: Chosen) {
  const at = desk.solver(desk.state.left);
  const model = desk.model(at);
  return { model, known: desk.known[at], found: measure(model, desk.known[at]) };
}

export const goals: Record<string, (desk: Chosen) => Marked> = {
  /** Rotated far: the energy stays, the components of the forces do not, their lengths do. */
  "quarter-turn"(desk) {
    const { model, known, found } = left(desk);
    if (!found) return WAIT;
    const angle = Math.round(degrees(desk.state.rotation));
    if (desk.state.mirror) return { right: false, says: "Switch the mirror image off." };
    if (angle < FAR) return { right: false, says: `It is rotated by ${angle}°. Rotate it by at least ${FAR}°.` };
    const [before, now] = [known.still!.forces, known.now!.forces];
    let [components, lengths] = [0, 0];
    for (let i = 0; i < now.length; i += 3) {
      const size = (of: Float64Array) => Math.hypot(of[i], of[i + 1], of[i + 2]);
      lengths = Math.max(lengths, Math.abs(size(now) - size(before)));
      for (let k = i; k < i + 3; k++) components = Math.max(components, Math.abs(now[k] - before[k]));
    }
    const says = `Rotated by ${angle}°: the energy of the first model changed by ${energy(found.energy.difference, model)}, components of its forces by up to ${gap(components)}, lengths of its forces by up to ${gap(lengths)}.`;
    return { right: found.energy.holds && found.forces.holds, says };
  },

  /** An atom far from where it was, and another energy. */
  "atom-moved"(desk) {
    const { model, known } = left(desk);
    if (!known.still) return WAIT;
    const far = Math.max(0, ...Object.values(desk.state.moved).map((by) => Math.hypot(...by)));
    const by = Math.abs(known.still.energy - model.start.energy);
    if (far < APART - 1e-9) return { right: false, says: far ? `It has moved by ${far.toFixed(2)} Å. Move it by ${APART} Å or more.` : "No atom has been moved." }; // prettier-ignore
    return { right: by > 0, says: `An atom has moved by ${far.toFixed(2)} Å, and the energy of the first model changed by ${energy(by, model)}.` }; // prettier-ignore
  },

  /** Mirrored, with the same energy. */
  "mirror-image"(desk) {
    const { model, found } = left(desk);
    if (!desk.state.mirror) return { right: false, says: "Switch the mirror image on." };
    if (!found) return WAIT;
    if (model.group !== "E(3)") return { right: false, says: `The first model is an ${model.group} model. Choose the E(3) transformer.` }; // prettier-ignore
    return { right: found.energy.holds, says: `In the mirror the energy of the first model differs by ${energy(found.energy.difference, model)}.` }; // prettier-ignore
  },
};

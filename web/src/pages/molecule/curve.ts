// The error over the rotation angle: recorded lines, and a dot for every rotation on this page.
import { section } from "../../charts/section";
import type { Mark, Picture, Series } from "../../charts/series";
import { select } from "../../core/dom";
import { scientific } from "../../core/format";
import type { MoleculeDesk } from "./desk";
import { measure } from "./equivariance";

const LEAST = 1e-17; // the lower end of the axis
const KEPT = 400; // dots
const KINDS = { energies: "energy", forces: "forces, relative" };

interface Rotated {
  degrees: number;
  energies: number;
  forces: number;
}

export function curve(desk: MoleculeDesk): { element: HTMLElement; draw(): void } {
  const { record } = desk;
  const dots: Rotated[][] = record.solvers.map(() => []); // of each model
  const kinds = Object.entries(KINDS).map(([name, title]) => ({ name, title }));
  const chosen = select("error of", kinds, desk.state.curve, (name) => desk.change({ curve: name as keyof typeof KINDS }));
  desk.hear((solver) => {
    const known = desk.known[solver];
    const found = measure(desk.model(solver), known);
    if (!found || known.degrees < 0.5 || known.mirrored) return;
    dots[solver].push({ degrees: known.degrees, energies: found.energy.difference, forces: found.forces.difference });
    if (dots[solver].length > KEPT) dots[solver].shift();
  });

  function picture(): Picture {
    const { curve: kind } = desk.state;
    const all = record.solvers.flatMap((one, i) => [...one[kind], ...dots[i].map((dot) => dot[kind])]).filter((value) => value > 0);
    const [low, high] = [Math.max(LEAST, Math.min(1e-16, ...all) / 3), Math.max(1, ...all) * 3];
    const series = record.solvers.map((model, i): Series => {
      const mark = (degrees: number, error: number): Mark => ({
        x: degrees,
        y: Math.max(error, low),
        sentence: `${model.title}: error of the ${KINDS[kind].split(",")[0]} ${scientific(error)} after a rotation by ${degrees.toFixed(0)}°`,
      });
      const own = dots[i].map((dot) => mark(dot.degrees, dot[kind]));
      const line = record.angles.flatMap((angle, k) => (angle > 0 ? [mark(angle, model[kind][k])] : []));
      return { name: model.title, look: i, ink: { "data-line": String(i) }, marks: own.length ? own : line, line: line.map(({ x, y }) => [x, y!]), plain: true, signs: own.length ? "dots" : undefined }; // prettier-ignore
    });
    return {
      series,
      height: 300,
      x: { title: "rotation angle", range: [0, 180], ticks: [0, 30, 60, 90, 120, 150, 180], text: (value) => `${value}°` },
      y: {
        title: kind === "energies" ? "error of the energy, in its unit" : "error of the forces, relative",
        log: true,
        range: [low, high],
        text: (value) => scientific(value).replace("1.0·", ""),
      },
    };
  }
  return section({
    id: "curve",
    file: "equiscope-error-over-rotation",
    title: "Error over rotation angle",
    caption: () => "Lines: rotations about the vertical axis, computed in Python. Dots: your own rotations about any axis, computed on this page.", // prettier-ignore
    hint: "Point at a dot or use the arrow keys.",
    choices() {
      chosen.querySelector("select")!.value = desk.state.curve;
      return [chosen];
    },
    picture,
    table: () => ({
      heads: ["angle", ...record.solvers.map(({ title }) => title)],
      rows: record.angles.map((angle, k) => [`${angle.toFixed(0)}°`, ...record.solvers.map((one) => scientific(one[desk.state.curve][k]))]), // prettier-ignore
    }),
  });
}

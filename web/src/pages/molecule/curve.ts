// The error over the rotation angle: recorded lines, and a dot for every rotation on this page.
import { axis } from "../../charts/axis";
import { h, select, svg } from "../../core/dom";
import { scientific } from "../../core/format";
import type { MoleculeDesk } from "./desk";
import { measure } from "./equivariance";

const [WIDE, HIGH, LEFT, BOTTOM, TOP, RIGHT] = [640, 300, 56, 40, 14, 16];
const LEAST = 1e-17; // the lower end of the axis
const KEPT = 400; // dots

export function curve(desk: MoleculeDesk): { element: HTMLElement; draw(): void } {
  const { record } = desk;
  const dots: { solver: number; degrees: number; energies: number; forces: number }[] = [];
  const place = h("div.plotted");
  const kinds = [
    { name: "energies", title: "energy" },
    { name: "forces", title: "forces, relative" },
  ];
  const chosen = select("error of", kinds, desk.state.curve, (name) => desk.change({ curve: name as "energies" | "forces" })); // prettier-ignore
  const element = h(
    "section.part",
    { "data-part": "curve" },
    h("h2", "Error over rotation angle"),
    h("p.quiet", "Lines: rotations about the vertical axis, computed in Python. Dots: your own rotations about any axis, computed on this page."), // prettier-ignore
    h("div.controls", chosen),
    place,
    h(
      "div.legend",
      record.solvers.map((model, i) => h("span", { "data-line": i }, h("i.dot"), model.title)),
    ),
  );
  desk.hear((solver) => {
    const known = desk.known[solver];
    const found = measure(desk.model(solver), known);
    if (!found || known.degrees < 0.5 || known.mirrored) return;
    dots.push({ solver, degrees: known.degrees, energies: found.energy.difference, forces: found.forces.difference });
    if (dots.length > KEPT) dots.shift();
  });

  function draw(): void {
    const { curve: kind } = desk.state;
    chosen.querySelector("select")!.value = kind;
    const lines = record.solvers.map((one) => one[kind]);
    const all = [...lines.flat(), ...dots.map((dot) => dot[kind])].filter((value) => value > 0);
    const [low, high] = [Math.max(LEAST, Math.min(1e-16, ...all) / 3), Math.max(1, ...all) * 3];
    const x = axis([0, 180], [LEFT, WIDE - RIGHT], 7);
    const y = axis([low, high], [HIGH - BOTTOM, TOP], 9, true);
    const drawn = (value: number) => y.place(Math.max(value, low));
    const worst = record.solvers.map((one, i) => `${one.title} ${scientific(Math.max(...lines[i]))} at most`).join(", ");
    const picture = svg("svg.curve", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `Error of the ${kind === "energies" ? "energy" : "forces"} over the rotation angle: ${worst}` }); // prettier-ignore
    for (const tick of y.ticks) picture.append(svg("line.axis", { x1: LEFT, x2: WIDE - RIGHT, y1: y.place(tick), y2: y.place(tick) }), svg("text.quiet", { x: LEFT - 8, y: y.place(tick) + 4, "text-anchor": "end", "font-size": 12 }, scientific(tick).replace("1.0·", ""))); // prettier-ignore
    for (const tick of [0, 30, 60, 90, 120, 150, 180]) picture.append(svg("text.quiet", { x: x.place(tick), y: HIGH - BOTTOM + 18, "text-anchor": "middle", "font-size": 12 }, `${tick}°`)); // prettier-ignore
    lines.forEach((values, i) => {
      const points = values.map((value, k) => [record.angles[k], value]).filter(([angle]) => angle > 0);
      picture.append(svg("polyline.line", { "data-line": i, points: points.map(([angle, value]) => `${x.place(angle).toFixed(1)},${drawn(value).toFixed(1)}`).join(" ") })); // prettier-ignore
    });
    for (const dot of dots) picture.append(svg("circle.sample", { "data-line": dot.solver, cx: x.place(dot.degrees), cy: drawn(dot[kind]), r: 3 })); // prettier-ignore
    picture.append(svg("text.quiet", { x: (LEFT + WIDE) / 2, y: HIGH - 4, "text-anchor": "middle", "font-size": 12 }, "rotation angle")); // prettier-ignore
    place.replaceChildren(picture);
  }
  return { element, draw };
}

// All models: outputs before and after rotation, their difference, and whether it is rounding.
import { h } from "../../core/dom";
import { error, scientific } from "../../core/format";
import { whether } from "../../widgets/verdict";
import type { MoleculeDesk } from "./desk";
import { gap, measure } from "./equivariance";

const exact = (value: number) => value.toPrecision(15).replace("-", "−");

export function numbers(desk: MoleculeDesk): { element: HTMLElement; draw(): void } {
  const body = h("tbody");
  const heads = [
    "model",
    "energy before",
    "energy after",
    "difference",
    "rounding floor",
    "energy invariant",
    "atomic energies invariant",
    "forces equivariant",
  ];
  const element = h(
    "section.part",
    { "data-part": "numbers" },
    h("h2", "Invariance and equivariance"),
    h("p.quiet", "Energies before and after the rotation, computed on this page in float64. Differences of energies have the unit of the energy; the error of the forces is relative to their size. The rounding floor is the float32 error times 2⁻²⁹; a difference up to 100 times the floor counts as rounding."), // prettier-ignore
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": "outputs before and after the rotation" }, h("table.numbers", h("caption.spoken", "Outputs of every model before and after the rotation"), h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), body)), // prettier-ignore
  );

  function draw(): void {
    body.replaceChildren(
      ...desk.record.solvers.map((model, i) => {
        const found = measure(model, desk.known[i]);
        const cells = found
          ? [
              h("td.number", { "data-value": found.energy.before }, exact(found.energy.before), " ", h("span.quiet", model.unit)),
              h("td.number", { "data-value": found.energy.now }, exact(found.energy.now), " ", h("span.quiet", model.unit)),
              h(
                "td.number",
                { "data-value": found.energy.difference },
                gap(found.energy.difference),
                " ",
                h("span.quiet", model.unit),
              ),
              h(
                "td.number",
                { "data-value": found.energy.floor },
                scientific(found.energy.floor),
                " ",
                h("span.quiet", model.unit),
              ),
              h("td", whether(found.energy.holds)),
              h("td.number", { "data-value": found.each.difference }, gap(found.each.difference), " ", whether(found.each.holds)), // prettier-ignore
              h("td.number", { "data-value": found.forces.difference }, error(found.forces.difference), " ", whether(found.forces.holds)), // prettier-ignore
            ]
          : [h("td", { colspan: 7 }, "computing …")];
        return h("tr", { "data-model": model.name }, h("th", { scope: "row" }, model.title), cells);
      }),
    );
  }
  return { element, draw };
}

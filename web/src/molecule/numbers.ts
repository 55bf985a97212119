// All models beside each other: what was, what is, how far apart, and whether that is rounding.
import { h } from "../dom";
import { error, scientific } from "../format";
import type { MoleculeDesk } from "./desk";
import { gap, measured } from "./equivariance";

const badge = (stays: boolean, yes: string, no: string) => h(`span.badge.${stays ? "stays" : "moves"}`, stays ? yes : no);
const exact = (value: number) => value.toPrecision(15).replace("-", "−");

export function numbers(desk: MoleculeDesk): { element: HTMLElement; draw(): void } {
  const body = h("tbody");
  const heads = [
    "model",
    "energy as it stood",
    "energy now",
    "difference",
    "rounding floor",
    "so it",
    "energy of an atom, at most",
    "forces from rotated forces",
  ];
  const element = h(
    "section.part",
    h("h2", "Which numbers stay"),
    h("p.quiet", "Energies before and after the turn, computed in this page in float64. The rounding floor is what float32 misses, times 2⁻²⁹: a difference within a hundred floors is rounding."), // prettier-ignore
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": "numbers that stay or move" }, h("table.numbers", h("caption.spoken", "What every model answers before and after the turn"), h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), body)), // prettier-ignore
  );

  function draw(): void {
    body.replaceChildren(
      ...desk.record.solvers.map((model, i) => {
        const found = measured(model, desk.known[i]);
        const cells = found
          ? [
              h("td.number", { "data-value": found.energy.before }, exact(found.energy.before), " ", h("span.quiet", model.unit)),
              h("td.number", { "data-value": found.energy.now }, exact(found.energy.now), " ", h("span.quiet", model.unit)),
              h("td.number", { "data-value": found.energy.difference }, gap(found.energy.difference)),
              h("td.number", { "data-value": found.energy.floor }, scientific(found.energy.floor)),
              h("td", badge(found.energy.stays, "stays", "moves")),
              h("td.number", { "data-value": found.each.difference }, gap(found.each.difference), " ", badge(found.each.stays, "stays", "moves")), // prettier-ignore
              h("td.number", { "data-value": found.forces.difference }, error(found.forces.difference), " ", badge(found.forces.stays, "turn along", "do not")), // prettier-ignore
            ]
          : [h("td", { colspan: 7 }, "is being computed")];
        return h("tr", { "data-model": model.name }, h("th", { scope: "row" }, model.title), cells);
      }),
    );
  }
  return { element, draw };
}

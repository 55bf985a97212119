// A card: a model, its stage, and its energy, digit by digit.
import { h, select } from "../../core/dom";
import { error, scientific } from "../../core/format";
import { whether } from "../../widgets/verdict";
import type { MoleculeDesk } from "./desk";
import { gap, measure } from "./equivariance";
import { Stage } from "./stage";

const DIGITS = 15; // significant digits of a float64

export function card(desk: MoleculeDesk, side: "left" | "right"): { element: HTMLElement; stage: Stage; draw(): void } {
  const stage = new Stage(desk, side);
  const options = desk.record.solvers.map(({ name, title }) => ({ name, title }));
  const chosen = select(side === "left" ? "model" : "compared with", options, desk.state[side], (name) =>
    desk.change({ [side]: name }),
  );
  const list = chosen.querySelector("select")!;
  const about = h("p.quiet.about");
  const value = h("span.value");
  const unit = h("span.unit");
  const energy = h("p.energy", h("span.label", "energy"), " ", value, " ", unit);
  const summary = h("div.saying");
  const element = h("section.card.model-card", { "data-part": side, "aria-label": side === "left" ? "first model" : "second model" }, h("div.which", chosen), about, stage.element, energy, summary); // prettier-ignore

  function draw(): void {
    const model = desk.model(stage.solver);
    const known = desk.known[stage.solver];
    list.value = model.name;
    about.textContent = model.about;
    unit.textContent = model.unit;
    const found = measure(model, known);
    stage.tell();
    if (!found) return value.replaceChildren(h("span.quiet", "computing …"));
    const { energy: e, forces } = found;
    value.replaceChildren(...digits(e.before, e.now, e.holds));
    energy.dataset.value = String(e.now);
    element.dataset.holds = String(e.holds && forces.holds);
    const moved = known.degrees > 0.05 || known.mirrored;
    summary.replaceChildren(
      moved ? whether(e.holds) : h("span.quiet", "not rotated yet"),
      h(
        "span",
        h("b", "invariant energy"),
        moved ? (e.difference === 0 ? ": bitwise equal" : `: differs by ${gap(e.difference)} ${model.unit}`.trimEnd()) : "",
        e.holds && moved ? `, rounding floor ${scientific(e.floor)} ${model.unit}`.trimEnd() : "",
      ),
      moved ? whether(forces.holds) : h("span.quiet", "not rotated yet"),
      h(
        "span",
        h("b", "equivariant forces"),
        known.still!.forces.every((part) => part === 0)
          ? ": all are 0"
          : moved
            ? `: differ from the rotated forces by ${ofTheirSize(forces.difference)}`
            : "",
      ),
    );
  }
  return { element, stage, draw };
}

/** A relative error of forces, said so: "6.8·10⁻¹⁵ of their size". */
export const ofTheirSize = (difference: number): string =>
  `${error(difference).replace(" times its size", " times")} of their size`;

/** The digits in common with the energy before, and the others. */
export function digits(before: number, now: number, holds: boolean): HTMLElement[] {
  const write = (value: number) =>
    value.toFixed(Math.max(0, DIGITS - 1 - Math.max(0, Math.floor(Math.log10(Math.abs(before) || 1)))));
  const [old, fresh] = [write(before), write(now)];
  let same = 0;
  while (same < fresh.length && fresh[same] === old[same] && fresh.length === old.length) same++;
  const text = (part: string) => part.replace("-", "−");
  const rest = fresh.slice(same);
  return [h("span.same", text(fresh.slice(0, same))), ...(rest ? [h(holds ? "span.rounded" : "span.other", text(rest))] : [])];
}

// A card: which model, its stage, and its energy, digit by digit.
import { h, select } from "../dom";
import { error, scientific } from "../format";
import type { MoleculeDesk } from "./desk";
import { gap, measured } from "./equivariance";
import { Stage } from "./stage";

const DIGITS = 15; // as many as a float64 surely has

export function card(desk: MoleculeDesk, side: "left" | "right"): { element: HTMLElement; stage: Stage; draw(): void } {
  const stage = new Stage(desk, side);
  const options = desk.record.solvers.map(({ name, title }) => ({ name, title }));
  const chosen = select(side === "left" ? "model" : "beside it", options, desk.state[side], (name) =>
    desk.change({ [side]: name }),
  );
  const list = chosen.querySelector("select")!;
  const about = h("p.quiet.about");
  const value = h("span.value");
  const unit = h("span.unit");
  const energy = h("p.energy", h("span.label", "energy"), " ", value, " ", unit);
  const said = h("p.saying");
  const element = h("section.card.seen", { "aria-label": side === "left" ? "the first model" : "the model beside it" }, h("div.which", chosen), about, stage.element, energy, said); // prettier-ignore

  function draw(): void {
    const model = desk.model(stage.solver);
    const known = desk.known[stage.solver];
    list.value = model.name;
    about.textContent = model.about;
    unit.textContent = model.unit;
    const found = measured(model, known);
    stage.tell();
    if (!found) return;
    const { energy: e, forces } = found;
    value.replaceChildren(...digits(e.before, e.now, e.stays));
    energy.dataset.value = String(e.now);
    element.dataset.stays = String(e.stays && forces.stays);
    const moved = known.degrees > 0.05 || known.mirrored;
    said.replaceChildren(
      h(`span.badge.${e.stays ? "stays" : "moves"}`, e.stays ? "stays" : "moves"),
      " ",
      moved ? (e.difference === 0 ? "not one bit differs" : `it differs by ${gap(e.difference)} ${model.unit}`) : "not turned yet",
      e.stays && moved ? h("span.quiet", ` · rounding floor ${scientific(e.floor)}`) : "",
      h("br"),
      h(`span.badge.${forces.stays ? "stays" : "moves"}`, forces.stays ? "turn along" : "do not"),
      " ",
      known.still!.forces.every((part) => part === 0)
        ? "nothing pulls at it"
        : moved
          ? `forces differ from rotated forces by ${forces.difference === 0 ? "nothing" : error(forces.difference)}`
          : "forces of the molecule as it stands",
    );
  }
  return { element, stage, draw };
}

/** The digits that are those of the energy before, and those that are not. */
export function digits(before: number, now: number, stays: boolean): HTMLElement[] {
  const write = (value: number) =>
    value.toFixed(Math.max(0, DIGITS - 1 - Math.max(0, Math.floor(Math.log10(Math.abs(before) || 1)))));
  const [old, fresh] = [write(before), write(now)];
  let same = 0;
  while (same < fresh.length && fresh[same] === old[same] && fresh.length === old.length) same++;
  const text = (part: string) => part.replace("-", "−");
  const rest = fresh.slice(same);
  return [h("span.same", text(fresh.slice(0, same))), ...(rest ? [h(stays ? "span.rounded" : "span.other", text(rest))] : [])];
}

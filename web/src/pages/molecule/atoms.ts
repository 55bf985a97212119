// The atoms as a table, with buttons to choose an atom and to move it without a pointer.
import { button, h } from "../../core/dom";
import type { MoleculeDesk } from "./desk";
import { NUDGE } from "./pointer";
import type { Stage } from "./stage";
import type { Three } from "./rotation";

const write = (value: number | undefined, digits = 4) => (value === undefined ? "–" : value.toFixed(digits).replace("-", "−"));

export function atomTable(desk: MoleculeDesk, stage: Stage): { element: HTMLElement; draw(): void } {
  const rows = desk.names.map((name, i) => {
    const choose = button(name, `Choose ${name}`, () => desk.choose(i), { "aria-pressed": false });
    const cells = Array.from({ length: 7 }, () => h("td.number"));
    return { choose, cells, row: h("tr", h("th", { scope: "row" }, choose), cells) };
  });
  const title = h("span");
  const element = h(
    "section.part",
    { "data-part": "atoms" },
    h("h2", "The atoms"),
    h("p.quiet", "Positions in Å after the rotation, as the models get them; energies and forces of ", title, ". The energy of an atom is its share of the sum: only the sum is a prediction."), // prettier-ignore
    mover(desk),
    h(
      "div.scroll.tall",
      { tabindex: 0, role: "region", "aria-label": "atoms" },
      h(
        "table.numbers.atoms",
        h("caption.spoken", "Atoms with positions, energies and forces"),
        h(
          "thead",
          h(
            "tr",
            ["atom", "x", "y", "z", "energy", "force x", "force y", "force z"].map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        h(
          "tbody",
          rows.map(({ row }) => row),
        ),
      ),
    ),
  );

  function draw(): void {
    const [at, now] = [desk.positions, desk.known[stage.solver].now];
    const { title: model, unit } = desk.model(stage.solver);
    title.textContent = `the ${model}${unit && `, in ${unit} and ${unit}/Å`}`;
    rows.forEach(({ choose, cells, row }, i) => {
      choose.setAttribute("aria-pressed", String(i === desk.state.atom));
      row.toggleAttribute("data-chosen", i === desk.state.atom);
      const values = [at[3 * i], at[3 * i + 1], at[3 * i + 2], now?.each[i], ...[0, 1, 2].map((k) => now?.forces[3 * i + k])];
      values.forEach((value, k) => {
        const text = write(value);
        if (cells[k].textContent === text) return;
        cells[k].textContent = text;
        cells[k].dataset.value = String(value);
      });
    });
  }
  return { element, draw };
}

/** Buttons that move the chosen atom in six directions of the screen. */
function mover(desk: MoleculeDesk): HTMLElement {
  const ways: [string, string, Three][] = [
    ["←", "left", [-1, 0, 0]],
    ["→", "right", [1, 0, 0]],
    ["↑", "up", [0, 1, 0]],
    ["↓", "down", [0, -1, 0]],
    ["nearer", "nearer", [0, 0, 1]],
    ["away", "away", [0, 0, -1]],
  ];
  const name = h("b");
  const keys = ways.map(([text, title, way]) => button(text, `Move the chosen atom ${title} by 0.05 Å`, () => desk.move(desk.state.atom, way.map((part) => part * NUDGE) as unknown as Three), { "aria-label": `Move it ${title}` })); // prettier-ignore
  const back = button("Restore positions", "Restore the positions of the file", () =>
    desk.change({ moved: {} }, "All positions are restored."),
  );
  const element = h("div.mover", { role: "group", "aria-label": "move the chosen atom" }, h("span", "Move ", name, " by 0.05 Å:"), keys, back); // prettier-ignore
  desk.keep(() => {
    const { atom, moved } = desk.state;
    element.hidden = atom < 0 && Object.keys(moved).length === 0;
    name.textContent = atom < 0 ? "an atom" : desk.names[atom];
    for (const key of keys) key.disabled = atom < 0;
    back.disabled = Object.keys(moved).length === 0;
  });
  return element;
}

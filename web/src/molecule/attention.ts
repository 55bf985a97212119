// Whom the chosen atom looks at, in one head of one layer, as numbers.
import { h, numbered, select } from "../dom";
import type { MoleculeDesk } from "./desk";
import type { Stage } from "./stage";

export function looking(desk: MoleculeDesk, stages: Stage[]): { element: HTMLElement; draw(): void } {
  const most = (of: "layers" | "heads") => Math.max(...desk.record.solvers.map((one) => one[of]));
  const from1 = (count: number) => numbered(Array.from({ length: count }, (_, i) => i + 1));
  const layer = select("layer", from1(most("layers")), String(desk.state.layer + 1), (value) => desk.change({ layer: Number(value) - 1 }, "", false)); // prettier-ignore
  const head = select("head", from1(most("heads")), String(desk.state.head + 1), (value) => desk.change({ head: Number(value) - 1 }, "", false)); // prettier-ignore
  const atoms = select("atom", [{ name: "0", title: "none" }, ...desk.names.map((name, i) => ({ name: String(i + 1), title: name }))], String(desk.state.atom + 1), (value) => desk.change({ atom: Number(value) - 1 }, "", false)); // prettier-ignore
  const said = h("p.quiet");
  const place = h("div.scroll", { tabindex: 0, role: "region", "aria-label": "attention of the chosen atom" });
  const element = h("section.part", h("h2", "Whom an atom looks at"), h("div.controls", atoms, layer, head), said, place);

  function draw(): void {
    const { atom } = desk.state;
    for (const [choice, value] of [
      [layer, desk.state.layer],
      [head, desk.state.head],
      [atoms, atom],
    ] as [HTMLElement, number][])
      choice.querySelector("select")!.value = String(value + 1);
    place.hidden = atom < 0;
    said.textContent =
      atom < 0
        ? "Choose an atom: here, in the picture, or in the table below. Its attention is drawn as bonds, as thick as the weights are large."
        : `Weights of ${desk.names[atom]} as the models computed them for the molecule as it stands now; each column sums to 1. Scores of the models that know about turns are made of what stays, so these numbers stay too.`;
    if (atom < 0) return;
    const found = stages.map((stage) => stage.weights());
    const order = desk.names.map((_, i) => i).sort((a, b) => (found[0]?.[b] ?? 0) - (found[0]?.[a] ?? 0));
    const bar = (value: number | undefined) => h("td.number.bar", { style: `--share: ${value ?? 0}`, "data-value": value ?? "" }, value === undefined ? "–" : value.toFixed(4)); // prettier-ignore
    place.replaceChildren(
      h(
        "table.numbers",
        h("caption.spoken", `Attention of ${desk.names[atom]}`),
        h(
          "thead",
          h(
            "tr",
            h("th", { scope: "col" }, "to"),
            stages.map((stage) => h("th", { scope: "col" }, desk.model(stage.solver).title)),
          ),
        ),
        h("tbody", order.map((i) => h("tr", h("th", { scope: "row" }, i === atom ? `${desk.names[i]} (itself)` : desk.names[i]), found.map((weights) => bar(weights?.[i]))))), // prettier-ignore
      ),
    );
  }
  return { element, draw };
}

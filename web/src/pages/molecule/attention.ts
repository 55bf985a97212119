// The attention of the chosen atom in one head, as numbers.
import { h, select } from "../../core/dom";
import type { MoleculeDesk } from "./desk";
import type { Stage } from "./stage";

export function attentionTable(desk: MoleculeDesk, stages: Stage[]): { element: HTMLElement; draw(): void } {
  const most = (of: "layers" | "heads") => Math.max(...desk.record.solvers.map((one) => one[of]));
  const options = (letter: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({ name: String(i), title: `${letter}${i}` }));
  const layer = select("layer", options("L", most("layers")), String(desk.state.layer), (value) => desk.change({ layer: Number(value) })); // prettier-ignore
  const head = select("head", options("H", most("heads")), String(desk.state.head), (value) => desk.change({ head: Number(value) })); // prettier-ignore
  const atoms = select("atom", [{ name: "-1", title: "none" }, ...desk.names.map((name, i) => ({ name: String(i), title: name }))], String(desk.state.atom), (value) => desk.change({ atom: Number(value) })); // prettier-ignore
  const note = h("p.quiet");
  const place = h("div.scroll", { tabindex: 0, role: "region", "aria-label": "attention of the chosen atom" });
  const element = h(
    "section.part",
    { "data-part": "attention" },
    h("h2", "Attention of an atom"),
    h("div.controls", atoms, layer, head),
    note,
    place,
  );

  function draw(): void {
    const { atom } = desk.state;
    for (const [choice, value] of [
      [layer, desk.state.layer],
      [head, desk.state.head],
      [atoms, atom],
    ] as [HTMLElement, number][])
      choice.querySelector("select")!.value = String(value);
    place.hidden = atom < 0;
    note.textContent =
      atom < 0
        ? "Choose an atom here, in the picture, or in the table below. Its attention weights are drawn as bonds; their thickness is the weight. Layers and heads are counted from 0."
        : `Attention weights of the query ${desk.names[atom]} for the rotated molecule; each column sums to 1. The scores of an equivariant model are computed from invariants, so its weights are invariant.`;
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
            h("th", { scope: "col" }, "key"),
            stages.map((stage) => h("th", { scope: "col" }, desk.model(stage.solver).title)),
          ),
        ),
        h("tbody", order.map((i) => h("tr", h("th", { scope: "row" }, i === atom ? `${desk.names[i]} (itself)` : desk.names[i]), found.map((weights) => bar(weights?.[i]))))), // prettier-ignore
      ),
    );
  }
  return { element, draw };
}

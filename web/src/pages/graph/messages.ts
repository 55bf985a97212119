// The incoming messages of the selected word, one a row: weight × value, and their sum, which is the word's output. On demand, its
// outgoing messages. Each number explains itself on hover.
import { button, h } from "../../core/dom";
import { column, symbol } from "../../core/format";
import { brief } from "../../core/labels";
import type { Name } from "../../core/names";
import type { Place } from "../../core/program";
import type { Tensor } from "../../core/tensor";
import type { GraphDesk } from "./desk";
import { type Shown, speaking } from "./numbers";

type Way = "arrives" | "leaves";

export function messages(desk: GraphDesk): { element: HTMLElement; draw(): void } {
  const heading = h("h2");
  const summary = h("p.count");
  const hide = button("", "", () => desk.hide(desk.state.node));
  const sends = button("", "Highlight and list the messages that this word sends", () => desk.change({ sends: !desk.state.sends }, "", false)); // prettier-ignore
  const [arriving, leaving] = [table(desk, "arrives"), table(desk, "leaves")];
  const going = h("div.leaving", h("h3"), leaving.element);
  const element = h(
    "section.messages",
    { "aria-label": "messages of the selected word" },
    h("div.head", heading, h("div.buttons", sends, hide)),
    summary,
    arriving.element,
    going,
  );

  function draw(): void {
    const { node, hidden, sends: on } = desk.state;
    const { text } = desk.words[node];
    const gone = hidden.includes(node);
    const count = desk.state.order.filter((from) => desk.there(node, from)).length;
    heading.replaceChildren("Messages to ", word(short(desk.words[node], 24)));
    hide.textContent = gone ? `Show ${brief(text, 0, 12)}` : `Hide ${brief(text, 0, 12)}`;
    hide.title = gone ? "Show the word and its edges again" : "Remove all edges of this word";
    hide.setAttribute("aria-pressed", String(gone));
    sends.textContent = "Outgoing messages";
    sends.setAttribute("aria-pressed", String(on));
    summary.replaceChildren(...sentence(text, gone, count));
    arriving.draw();
    arriving.element.hidden = !count;
    going.hidden = !on;
    going.querySelector("h3")!.replaceChildren("Messages from ", word(short(desk.words[node], 24)), ": its value, times each receiver's weight for it"); // prettier-ignore
    if (on) leaving.draw();
  }

  function sentence(text: string, gone: boolean, count: number): (string | Node)[] {
    if (gone) return [`${text} is hidden: it has no edges, and its output is 0.`];
    if (!count) return [`No edge leads to ${text}: it receives no message, so its output is 0.`];
    if (count === 1) return ["One incoming message: its weight is 1, and it is the output."];
    return [`${count} incoming messages, each weight × value. The weights sum to 1; the sum of the messages is the output.`];
  }
  return { element, draw };
}

const short = ({ text, colour }: Name, letters: number): Name => ({ text: brief(text, 0, letters), colour });
const word = ({ text, colour }: Name): HTMLElement => h("bdi.word", { "data-colour": colour }, text);

/** The incoming or outgoing messages of the selected word as a table. */
function table(desk: GraphDesk, way: Way): { element: HTMLElement; draw(): void } {
  const { record, nodes } = desk;
  const { roles, width } = record;
  const arrives = way === "arrives";
  const dims = Array.from({ length: width }, (_, d) => d);
  const cell = () => h("td.cell", { role: "gridcell", tabindex: -1 });
  const rows = Array.from({ length: nodes }, () => {
    const name = h("th", { scope: "row", role: "rowheader" });
    const [weight, value, message] = [cell(), dims.map(cell), dims.map(cell)];
    message[0].classList.add("first");
    value[0].classList.add("first");
    return { name, weight, value, message, line: h("tr", { role: "row" }, name, weight, value, message) };
  });
  const sum = dims.map(cell);
  sum[0].classList.add("first");
  const total = h("tr.total", { role: "row" }, h("th", { scope: "row", role: "rowheader", colspan: 2 + width }, "sum = output ", symbol("Z")), sum); // prettier-ignore
  const head = (text: string, letter: string, span: number) => h(span > 1 ? "th.first" : "th", { scope: "col", role: "columnheader", colspan: span }, text, " ", symbol(letter)); // prettier-ignore
  const grid = h(
    "table.messages",
    { role: "grid", "aria-label": arrives ? "incoming messages" : "outgoing messages" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, h("th", { scope: "col", role: "columnheader" }, arrives ? "from" : "to"), head("weight", "A", 1), head("× value", "V", width), head("= message", "M", width))), // prettier-ignore
    h("tbody", { role: "rowgroup" }, rows.map(({ line }) => line), arrives && total), // prettier-ignore
  );
  speaking(desk, grid, [roles.weights, roles.values, roles.sent, roles.given, roles.messages, roles.output], listed);

  function listed(): Shown[][] {
    const at = desk.place(desk.state.node);
    const [weights, values, sent, given, products] = [roles.weights, roles.values, roles.sent, roles.given, roles.messages];
    const of = (id: string, ...index: number[]): Place => ({ id, index });
    const list = rows.map(({ weight, value, message }, other): Shown[] => {
      const [to, from] = arrives ? [at, other] : [other, at];
      return [
        { cell: weight, places: [of(weights, to, from), of(sent, to, from, 0)] },
        ...dims.map((d) => ({ cell: value[d], places: [of(values, from, d), of(given, 0, from, d)] })),
        ...dims.map((d) => ({ cell: message[d], places: [of(products, to, from, d)] })),
      ];
    });
    return arrives ? [...list, dims.map((d) => ({ cell: sum[d], places: [of(roles.output, at, d)] }))] : list;
  }

  function draw(): void {
    const { order, node, digits } = desk.state;
    const shown = listed();
    const numbers = new Map<string, { value: Tensor; write(value: number): string }>();
    for (const role of ["weights", "values", "messages", "output"]) {
      const value = desk.value(role);
      numbers.set(roles[role], { value, write: column(value.data, digits) });
    }
    rows.forEach(({ name, line }, at) => {
      const other = order[at];
      line.hidden = arrives ? !desk.there(node, other) : !desk.there(other, node);
      name.replaceChildren(word(short(desk.words[other], 14)));
      name.title = desk.words[other].text;
      line.dataset.colour = String(desk.words[arrives ? other : node].colour);
    });
    for (const { cell, places } of shown.flat()) {
      const [{ id, index }] = places;
      const { value, write } = numbers.get(id)!;
      const number = value.data[index.reduce((place, i, axis) => place * value.shape[axis] + i, 0)];
      const text = write(number);
      if (cell.textContent !== text) cell.textContent = text;
      cell.dataset.value = String(number);
    }
    const first = shown.flat().filter(({ cell }) => !cell.closest("[hidden]"));
    if (!first.some(({ cell }) => cell.tabIndex === 0) && first.length) first[0].cell.tabIndex = 0;
  }
  return { element: h("div.scroll", grid), draw };
}

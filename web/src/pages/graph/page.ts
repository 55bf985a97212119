// The graph page: the picture and its edges, the messages of one word, a permutation, the reasons in numbers.
import { permute } from "../../core/actions";
import { shuffled } from "../../widgets/strip";
import type { Messages } from "../../core/contract";
import { asPart, button, h, numbered, select, slider } from "../../core/dom";
import { save } from "../../core/save";
import { verdict } from "../../widgets/verdict";
import { explainer } from "../../widgets/explain";
import { equivariance } from "../../core/measure";
import { navigation } from "../../widgets/navigation";
import { adjacency } from "./adjacency";
import { messages } from "./messages";
import { GraphDesk } from "./desk";
import { count, randomEdges, hasSelfLoops, matching, table, selfLoops } from "./edges";
import { picture } from "./picture";
import { reasons } from "./reasons";
import { steps } from "./steps";
import "./graph.css";

export function mount(record: Messages, root: HTMLElement): GraphDesk {
  const desk = new GraphDesk(record);
  const parts = { picture: picture(desk), edges: adjacency(desk), messages: messages(desk), chosen: controls(desk), shuffle: shuffle(desk) }; // prettier-ignore
  const saved = (kind: "svg" | "png") => {
    desk.pin(undefined); // no hover in a saved picture
    save(parts.picture.element, "equiscope-graph", kind);
  };
  document.body.classList.add("network");
  root.replaceChildren(
    h(
      "header",
      navigation("graph"),
      h(
        "div.top",
        h("h1", { "data-part": "title" }, record.title),
        h(
          "div.buttons",
          { "data-part": "tools" },
          button("↶ Undo", "Undo the last change (Ctrl+Z)", () => desk.undo()),
          button("Reset", "Reset to the initial state", () => desk.change(desk.schema.initial(), "Reset.")),
          button("SVG", "Save the graph as an SVG picture", () => saved("svg")),
          button("PNG", "Save the graph as a PNG picture", () => saved("png")),
        ),
      ),
      h("p.lede", { "data-part": "title" }, record.summary),
      (record.notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
    ),
    h(
      "main",
      { id: "story" },
      h(
        "section.part.whole",
        { "aria-label": "the graph" },
        parts.chosen.element,
        h(
          "div.sides",
          h("div.left", asPart("picture", parts.picture.element), asPart("controls", parts.chosen.status)),
          h(
            "div.right",
            asPart("messages", parts.messages.element),
            asPart("edges", parts.edges.element),
            asPart("shuffle", parts.shuffle.element),
          ),
        ),
      ),
      asPart("steps", steps(desk)),
      asPart("reasons", h("div", reasons(record))),
    ),
    explainer(desk),
    h(
      "footer",
      { "data-part": "footer" },
      "equiscope: the numbers about your words are computed in your browser from the traced program of a PyTorch attention; those of the reasons were measured in Python when the page was built. It works offline and sends no data.",
    ),
  );
  for (const { draw } of Object.values(parts)) desk.keep(draw);
  return desk;
}

/** The graph, random edges, and the cost. */
function controls(desk: GraphDesk): { element: HTMLElement; status: HTMLElement; draw(): void } {
  const { record, nodes } = desk;
  const YOURS = "yours";
  const options = [...record.graphs, { name: YOURS, title: "custom" }];
  const chosen = select("graph", options, record.start, (name) => {
    const graph = record.graphs.find((one) => one.name === name);
    if (graph) desk.change({ edges: table(graph.edges, nodes), hidden: [] }, `${graph.title}. ${graph.text}`);
    else draw();
  });
  const list = chosen.querySelector("select")!;
  const itself = h<HTMLInputElement>("input", {
    type: "checkbox",
    onchange: () => desk.change({ edges: selfLoops(desk.state.edges, nodes, itself.checked) }, itself.checked ? "Added all self-loops." : "Removed all self-loops."), // prettier-ignore
  });
  const random = slider(
    "random edges",
    [0, nodes * nodes],
    count(desk.state.edges),
    (wanted, first) => desk.change({ edges: randomEdges(nodes, wanted) }, "", first),
    (wanted) => `${wanted} of ${nodes * nodes}`,
  );
  const range = random.querySelector("input")!;
  const read = random.querySelector("output")!;
  const digits = select("digits", numbered([0, 1, 2, 3, 4, 6]), String(desk.state.digits), (value) => desk.set({ digits: Number(value) })); // prettier-ignore
  const about = h("p.quiet.about");
  const cost = h("span.cost");
  const status = h("span.change", { role: "status" });
  const element = h(
    "div",
    { "data-part": "controls" },
    h(
      "div.controls",
      chosen,
      h("label.choice", itself, h("span", "self-loops")),
      random,
      button("Resample", "The same number of random edges, drawn again", () => desk.change({ edges: randomEdges(nodes, Number(range.value)) }, "Resampled the edges.")), // prettier-ignore
      digits,
    ),
    about,
  );

  function draw(): void {
    const { edges, hidden, digits: places } = desk.state;
    const graph = matching(record.graphs, edges, nodes);
    list.value = graph?.name ?? YOURS;
    about.textContent = `${graph?.text ?? "Custom edges."} Select a word to see its messages; click an arrow or a cell to remove or add an edge.`;
    itself.checked = hasSelfLoops(edges, nodes);
    if (document.activeElement !== range) range.value = String(count(edges));
    read.textContent = `${count(edges)} of ${nodes * nodes}`;
    range.setAttribute("aria-valuetext", read.textContent);
    digits.querySelector("select")!.value = String(places);
    const [messages, all] = [desk.messages, nodes * nodes];
    const [takes, whole] = [messages, all].map((edges) => (edges * 2 * record.width).toLocaleString("en"));
    const out = hidden.length ? `, ${hidden.length} of ${nodes} words hidden` : "";
    cost.textContent =
      messages === all
        ? `${all} message${all === 1 ? "" : "s"}, as in full attention: ${whole} multiply-adds for scores and messages.`
        : `${messages} of the ${all} messages of full attention${out}: ${takes} multiply-adds for scores and messages instead of ${whole}.`;
    if (status.textContent !== desk.status) status.textContent = desk.status;
  }
  return { element, status: h("p.counted", cost, " ", status), draw };
}

/** Permute the words: the picture turns, the numbers move with their words. */
function shuffle(desk: GraphDesk): { element: HTMLElement; draw(): void } {
  const { record, nodes } = desk;
  const typed = record.words.map((_, i) => i);
  const measured = h("div.measured");
  const order = (next: number[], status: string) => desk.change({ order: next }, status);
  const element = h(
    "div.shuffle",
    { hidden: nodes < 2 },
    h("h3", "Permutation"),
    h(
      "div.buttons",
      button("Shuffle", "Permute the words and their edges at random", () => order(shuffled(desk.state.order), "Shuffled: the picture turns, the numbers move with their words.")), // prettier-ignore
      button("Original order", "Restore the order as typed", () => order(typed, "Original order.")),
    ),
    measured,
  );

  function draw(): void {
    const moved = desk.state.order.some((row, i) => row !== i);
    const programRecord = desk.run.record.program;
    const by = moved ? desk.state.order : [...typed.slice(1), 0];
    const found = equivariance(programRecord, desk.leaves(typed), permute(by), record.roles.output);
    measured.replaceChildren(
      verdict("‖f(gX) − g f(X)‖ / ‖f(X)‖", found),
      h("p.quiet", `Equivariance to permutations of the words and edges, measured ${moved ? "with this order" : "with the first word moved to the end"}.`), // prettier-ignore
    );
  }
  return { element, draw };
}

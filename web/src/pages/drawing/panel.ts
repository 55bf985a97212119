// Beside the drawing: the whole model, or the open box with its sizes, its equivariances, and its numbers.
import type { Box, Claim, Drawing, ModelClaim } from "../../core/contract";
import { button, h } from "../../core/dom";
import { graph } from "../../widgets/graph";
import { matrix } from "../../widgets/matrix";
import { equation, part, reveal } from "../../widgets/steps";
import { whether } from "../../widgets/verdict";
import { short, written } from "./boxes";
import type { DrawingDesk } from "./desk";
import { repeats } from "./picture";

const BARS = 8;

/** The panel for the state as it is. */
export function panel(desk: DrawingDesk): HTMLElement {
  const box = desk.drawing.boxes.find(({ id }) => id === desk.state.box);
  return box ? opened(desk, box) : whole(desk);
}

// --- the whole -----------------------------------------------------------------------------------------------------------
function whole(desk: DrawingDesk): HTMLElement {
  const { drawing } = desk;
  return h(
    "div.flow",
    h(
      "section.part",
      h("h3", "Equivariance of the whole model"),
      h("p.quiet", "Choose an action to mark the parts that are not equivariant to it."),
      stands(desk),
    ),
    h("section.part", h("h3", `${drawing.parameters.toLocaleString("en")} parameters`), bars(desk)),
    h("p.quiet", "Open a box by click or Enter to see what it computes. ", drawing.program_note),
  );
}

function stands(desk: DrawingDesk): HTMLElement {
  const { action } = desk.state;
  const choose = (stand: ModelClaim) => desk.set({ action: stand.action === action ? "" : stand.action }, { structure: true });
  return h(
    "ul.stands",
    desk.drawing.claims.map((stand) =>
      h(
        "li",
        h(
          "button",
          {
            type: "button",
            title: `Mark the parts: ${stand.summary}`,
            "aria-pressed": String(stand.action === action),
            onclick: () => choose(stand),
          },
          whether(stand.holds),
          ` equivariance: ${stand.action}`,
        ),
        h("span.quiet", `${stand.summary}: ${stand.reason}`),
      ),
    ),
  );
}

/** The boxes that hold the most parameters. */
function bars(desk: DrawingDesk): HTMLElement {
  const { drawing } = desk;
  const sorted = drawing.boxes.filter(({ total }) => total).sort((a, b) => b.total! - a.total!);
  const most = sorted[0]?.total ?? 1;
  return h(
    "ul.bars",
    sorted
      .filter((box, i) => i < 3 || (i < BARS && box.total! > drawing.parameters * 0.0005))
      .map((box) =>
        h(
          "li",
          h(
            "a",
            { href: `#box=${encodeURIComponent(box.id)}`, onclick: (event: Event) => (event.preventDefault(), desk.open(box)) },
            named(box, drawing),
          ),
          h("span.bar", { "data-kind": box.kind, style: `--share:${(box.total! / most).toFixed(4)}` }),
          h("span.quiet", `${short(box.total!)} (${((100 * box.total!) / drawing.parameters).toFixed(1)} %)`),
        ),
      ),
  );
}

/** A box's title, and which tower and which layers it is of, where there are several. */
function named(box: Box, drawing: Drawing): string {
  const frame = drawing.frames.find(({ id }) => id === box.frame);
  const tower = drawing.towers.length > 1 ? [drawing.towers[box.tower ?? 0].toLowerCase()] : [];
  return [box.title, ...tower, ...(frame?.outer ? [frame.title] : [])].join(", ");
}

// --- one box -------------------------------------------------------------------------------------------------------------
function opened(desk: DrawingDesk, box: Box): HTMLElement {
  const { drawing } = desk;
  return h(
    "div.flow",
    h(
      "section.part.about",
      h(
        "div.head",
        h("h3", { tabindex: -1, id: "opened" }, named(box, drawing)),
        button("✕ close", "Back to the whole model (Escape)", () => desk.close(), { class: "keep" }),
      ),
      box.about && h("p", box.about),
      sizes(box, drawing),
      !!box.claims?.length && h("ul.claims", box.claims.map(claimed)),
    ),
    box.steps?.length ? numbers(desk, box) : h("p.quiet", silent(box)),
  );
}

function sizes(box: Box, drawing: Drawing): HTMLElement {
  const times = repeats(box, drawing);
  const [parameters, total] = [box.parameters ?? 0, box.total ?? 0];
  const elsewhere = parameters > 0 && total === 0;
  const rows: [string, string | undefined][] = [
    ["details", box.lines?.join("; ")],
    ["output shape", written(box)],
    ["instances", times > 1 ? `${times} times` : undefined],
    [
      "parameters",
      !parameters
        ? undefined
        : elsewhere
          ? `${parameters.toLocaleString("en")}, tied, counted at another box`
          : total === parameters
            ? parameters.toLocaleString("en")
            : `${parameters.toLocaleString("en")} each, ${total.toLocaleString("en")} in all`,
    ],
    ["share", total ? `${((100 * total) / drawing.parameters).toPrecision(3)} % of the model` : undefined],
    ["module", modules(box.where ?? [])],
  ];
  return h(
    "dl.changes",
    rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt.quiet", name), h("dd", value)]),
  );
}

const modules = (where: string[]): string => (where.length > 2 ? `${where[0]} … ${where.at(-1)}` : where.join(", "));

const claimed = ({ action, holds, reason }: Claim): HTMLElement =>
  h("li", whether(holds), h("b", ` equivariance: ${action}`), ` ${reason ?? ""}`);

const silent = (box: Box): string =>
  box.kind === "input" || box.kind === "output" ? "" : "It computes nothing: rows pass unchanged.";

/** The steps of a box as a graph, and each with its formula and its numbers. */
function numbers(desk: DrawingDesk, box: Box): HTMLElement {
  const run = () => desk.run;
  const own = part(desk.run.record.program, box.steps!);
  const shown = new Set<string>();
  const steps = h("div.steps");
  const root = h(
    "section.part",
    h("h3", "Its numbers"),
    h("p.quiet", desk.drawing.program_note),
    own.steps.length > 1 && graph(own, own.outputs, (id) => reveal(root, id)),
    steps,
  );
  for (const step of own.steps) {
    const given = step.inputs.filter((id) => own.leaves.some((leaf) => leaf.id === id) && !shown.has(id));
    for (const id of given) shown.add(id);
    steps.append(
      h(
        "div.step",
        { "data-step": step.id },
        h("div.formula-line", equation(desk.run, step.id)),
        h(
          "div.row",
          given.map((id) => matrix(desk, run, id)),
          matrix(desk, run, step.id),
        ),
      ),
    );
  }
  return root;
}

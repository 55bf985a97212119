// E1: self-attention, number by number, in the order in which it happens.
import type { App } from "./app";
import { asPart, button, h } from "../../core/dom";
import { circles } from "../../widgets/circles";
import { ancestors, graph } from "../../widgets/graph";
import { matrix } from "../../widgets/matrix";
import { heading } from "../../core/names";
import { equation, reveal } from "../../widgets/steps";
import { UNTIL } from "./state";
import { running, section, type Story } from "./story";

const STEPS = ["queries", "keys", "values", "scores", "weights", "mixed", "output"]; // with a name of their own in a figure

export const numbers: Story = {
  title: "Numbers",
  heading: "Self-attention, number by number",
  lede: "Point at or tap any number: the bar at the bottom shows the operands that it is computed from. Change an input or a weight, and everything after it is recomputed.",
  controls: ["scheme", "causal", "head"],
  build(app: App): HTMLElement {
    const run = running(app, () => app.state.scheme);
    const { program: programRecord, roles } = run().record;
    const last = roles![app.state.until];
    const wanted = ancestors(new Map(programRecord.steps.map((s) => [s.id, s])), last);
    const parts = new Map(STEPS.map((role) => [roles![role], role === "mixed" ? "weighted-sum" : role]));
    const shown = new Set<string>();
    const root = h("div.flow.dense", asPart("extent", extent(app)));
    let [group, title]: [HTMLElement | undefined, string | undefined] = [undefined, undefined];
    for (const step of programRecord.steps.filter((s) => wanted.has(s.id))) {
      if (heading(step.where) !== title || !group) {
        title = heading(step.where);
        group = h("div.steps");
        root.append(section("steps", title, group));
      }
      const given = step.inputs.filter((id) => !programRecord.steps.some((s) => s.id === id) && !shown.has(id));
      for (const id of given) shown.add(id);
      group.append(
        h(
          "div.step",
          { "data-step": step.id, "data-part": parts.get(step.id) ?? "steps" },
          h("div.formula-line", equation(run(), step.id)),
          h(
            "div.row",
            given.map((id) => matrix(app, run, id)),
            matrix(app, run, step.id, step.id === roles!.output ? { caption: "output of the layer" } : {}),
          ),
          step.id === roles!.weights && circles(app, run, step.id),
        ),
      );
    }
    root.append(
      asPart(
        "graph",
        h(
          "div.full",
          section(
            "graph",
            "Every step as a graph",
            h("p.quiet", "Boxes with a dashed line are inputs and weights. A box leads to its numbers."),
            graph(programRecord, [last], (id) => reveal(root, id)),
          ),
        ),
      ),
    );
    return root;
  },
};

/** Whether the steps end with the weighted sum of the values, or with what the block returns. */
function extent(app: App): HTMLElement {
  const choice = (until: (typeof UNTIL)[number], text: string) =>
    button(text, `Show ${text.toLowerCase()}`, () => app.set({ until }, { structure: true }), {
      "aria-pressed": String(app.state.until === until),
    });
  return h("div.buttons.extent", choice("mixed", "Attention alone"), choice("output", "The whole block"));
}

// E1: self-attention, number by number, in the order in which it happens.
import { h } from "../../core/dom";
import { circles } from "../../widgets/circles";
import { ancestors, graph } from "../../widgets/graph";
import { matrix } from "../../widgets/matrix";
import { heading } from "../../core/names";
import { equation, reveal } from "../../widgets/steps";
import type { App } from "./app";
import { running, section, type Story } from "./story";

const STEPS = ["queries", "keys", "values", "scores", "weights", "mixed", "output"]; // with a name of their own in a figure
const slug = (title: string): string => title.toLowerCase().replace(/[^a-z0-9]+/g, "-");

export const numbers: Story = {
  title: "Numbers",
  lede: "Self-attention over a sentence. Every number is computed on this page: point at one to see its operands; edit an input or a weight, and everything after it is recomputed.",
  controls: ["scheme", "causal", "head"],
  build(app: App): HTMLElement {
    const run = running(app, () => app.state.scheme);
    const { program: programRecord, roles } = run().record;
    const wanted = ancestors(new Map(programRecord.steps.map((s) => [s.id, s])), roles!.output);
    const parts = new Map(STEPS.map((role) => [roles![role], role === "mixed" ? "weighted-sum" : role]));
    const shown = new Set<string>();
    const root = h("div.flow.dense");
    root.append(
      h(
        "div.full",
        { "data-part": "graph" },
        section(
          "graph",
          "The steps",
          graph(programRecord, [roles!.output], (id) => reveal(root, id)),
        ),
      ),
    );
    let [group, title]: [HTMLElement | undefined, string | undefined] = [undefined, undefined];
    for (const step of programRecord.steps.filter((s) => wanted.has(s.id))) {
      if (heading(step.where) !== title || !group) {
        title = heading(step.where);
        group = h("div.steps");
        root.append(section(slug(title), title, group));
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
            matrix(app, run, step.id, step.id === roles!.output ? { caption: `${step.label}: what the layer returns` } : {}),
          ),
          step.id === roles!.weights && circles(app, run, step.id),
        ),
      );
    }
    return root;
  },
};

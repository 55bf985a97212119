// From the words to the weights: the program step by step. Its inputs can be edited.
import { h } from "../../core/dom";
import { matrix } from "../../widgets/matrix";
import { equation } from "../../widgets/steps";
import type { GraphDesk } from "./desk";

/** Every step but the messages, which have a table of their own. */
export function steps(desk: GraphDesk): HTMLElement {
  const { program: programRecord, roles } = desk.record;
  const own = new Set([roles.messages, roles.sent, roles.given]);
  const shown = new Set([roles.edges]);
  const list = programRecord.steps
    .filter(({ id, op }) => !own.has(id) && op !== "transpose")
    .map((step) => {
      const given = step.inputs.filter((id) => programRecord.leaves.some((leaf) => leaf.id === id) && !shown.has(id));
      for (const id of given) shown.add(id);
      return h(
        "div.step",
        { "data-step": step.id },
        h("div.formula-line", equation(desk.run, step.id)),
        h("div.row", [...given, step.id].map((id) => matrix(desk, () => desk.run, id))), // prettier-ignore
      );
    });
  return h(
    "details.part.program",
    h("summary", h("h2", "From words to weights")),
    h("p.quiet", "How weights and values are computed. A missing edge is a score of −∞, so its weight is 0. Underlined numbers can be edited."), // prettier-ignore
    h("div.steps", list),
  );
}

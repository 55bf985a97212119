// From the pixels to the output: the program step by step. The given weights can be edited.
import { h } from "../../core/dom";
import { matrix } from "../../widgets/matrix";
import { equation } from "../../widgets/steps";
import type { ImageDesk } from "./desk";

const WIDE = 200; // columns of a value that is drawn: pixels are not

export function steps(desk: ImageDesk): HTMLElement {
  const { program } = desk.run.record;
  const shown = new Set<string>();
  const drawn = (id: string) => (desk.run.program.get(id).shape.at(-1) ?? 1) <= WIDE;
  const list = program.steps
    .filter(({ op }) => op !== "transpose" && op !== "heads" && op !== "join")
    .map((step) => {
      const given = step.inputs.filter((id) => program.leaves.some((leaf) => leaf.id === id) && !shown.has(id) && drawn(id));
      for (const id of given) shown.add(id);
      return h(
        "div.step",
        { "data-step": step.id },
        h("div.formula-line", equation(desk.run, step.id)),
        h("div.row", [...given, step.id].map((id) => h("div.scroll", matrix(desk, () => desk.run, id)))), // prettier-ignore
      );
    });
  return h("div.steps", list);
}

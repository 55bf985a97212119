// What can be changed in the model at the chosen head, edge, token and number. The model's answer follows.
import { button, h } from "../../core/dom";
import { named } from "../../core/labels";
import type { View } from "./detail";
import type { Change } from "./model_change";
import { effectSummary } from "./model_panel";
import { withChange } from "./model_answers";
import { headName, layerName } from "./mosaic";
import type { HeadsPage } from "./page";
import { digits } from "../../core/format";

export function modelActions(page: HeadsPage): { element: HTMLElement; draw(view: View, row: number, column: number): void } {
  const { record, answers } = page;
  const rows = h("div.act-rows");
  const result = h("p.summary", { role: "status" });
  const element = h(
    "section.model-actions",
    { "data-part": "actions", "aria-label": "change the model" },
    h("h3", "Change it in the model"),
    h("p.quiet", "What is set above changes the weights on this page alone; these buttons let the model run."),
    rows,
    result,
  );
  const values: Record<string, string> = { scale: "0.5", weight: "0", position: "" };
  let drawn = "";

  const add = (change: Change) => page.set({ changes: withChange(page.state.changes, change) });
  const field = (name: string, label: string) => {
    const input = h<HTMLInputElement>("input", { type: "number", step: "any", value: values[name], "aria-label": label, oninput: () => (values[name] = input.value) }); // prettier-ignore
    return input;
  };
  /** A button that takes a number from the field beside it. */
  const valued = (text: string, title: string, name: string, label: string, make: (value: number) => Change) =>
    h("span.valued", button(text, title, () => Number.isFinite(Number(values[name] || "x")) && add(make(Number(values[name])))), field(name, label)); // prettier-ignore

  return {
    element,
    draw(view, row, column) {
      const { layer, head, found, asks, answers: keys } = view;
      const { effect, busy, trouble } = answers!;
      result.textContent = busy ? "The model runs …" : trouble || (effect?.changes.length ? `${effectSummary(effect)}.` : "");
      const { second, edits, after } = page.state;
      const mine = edits.filter((edit) => edit.layer === layer && edit.head === head);
      const key = JSON.stringify([layer, head, row, column, second, after, mine, Boolean(effect?.second?.no_patch)]);
      if (key === drawn) return;
      drawn = key;
      const focused = rows.contains(document.activeElement) ? (document.activeElement as HTMLElement).textContent : undefined;
      const here = [layer, head];
      const name = headName(record, layer, head);
      const no = !second ? "Give a second input first" : (effect?.second?.no_patch ?? "");
      const patch = (text: string, title: string, change: Change) => button(text, no || title, () => add(change), { disabled: Boolean(no) }); // prettier-ignore
      const stack = record.sequences.length > 1 ? [layer] : []; // an encoder and a decoder have tokens of their own
      const answering = record.interventions!.answer === "next" && found.query_sequence === record.interventions!.sequence;
      if (document.activeElement?.parentElement?.parentElement?.parentElement !== rows) values.position = String(row);
      rows.replaceChildren(
        h("div", { role: "group", "aria-label": "head" }, h("b", name), button("Set to 0", `Set the output of ${name} to 0`, () => add({ action: "zero", of: "output", where: here, tokens: [] })), button("Set to its mean", `Set the output of ${name} to its mean over tokens`, () => add({ action: "mean", of: "output", where: here, tokens: [] })), valued("Scale by", `Scale the output of ${name}`, "scale", "factor", (value) => ({ action: "scale", of: "output", where: here, tokens: [], value })), patch("From the second input", `Take the output of ${name} from the second input`, { action: "patch", of: "output", where: here, tokens: [] }), button("Freeze its pattern", `${name} keeps its attention weights whatever changes before it`, () => add({ action: "freeze", of: "weights", where: here, tokens: [] }))), // prettier-ignore
        h("div", { role: "group", "aria-label": "edge" }, h("b", named(asks, row), " → ", named(keys, column)), button("Remove this edge", `In ${name} the query no longer attends to the key`, () => add({ action: "cut", of: "weights", where: here, tokens: [row, column] })), button(`In every head of ${layerName(record, layer)}`, "Remove this edge in every head of the layer", () => add({ action: "cut", of: "weights", where: [layer], tokens: [row, column] })), valued("Set its weight to", "Set this one weight; the others of the row stay", "weight", "weight", (value) => ({ action: "set", of: "weights", where: here, tokens: [row, column], value }))), // prettier-ignore
        !found.cross ? h("div", { role: "group", "aria-label": "token" }, h("b", named(asks, row)), valued("Move to position", "Give this token another position; its order, and so the mask, stays", "position", "position", (value) => ({ action: "move", of: "token", where: stack, tokens: [row], value: Math.round(value) })), patch(`From the second input, entering ${layerName(record, layer)}`, "Take the residual stream of this token from the second input", { action: "patch", of: "stream", where: [layer], tokens: [row] }), answering && row !== (after ?? answers!.last) && button("Answer after it", "Show what the model predicts after this token", () => page.set({ after: row === answers!.last ? undefined : row }))) : "", // prettier-ignore
        ...mine.map(({ of, token, feature, value }) => h("div", { role: "group", "aria-label": "number" }, h("b", `${of}, feature ${feature}, of `, named(of === "q" ? asks : keys, token)), button(`Set it to ${digits(value)} in the model`, "Let the model run with this number", () => add({ action: "set", of, where: here, tokens: [token, feature], value })))), // prettier-ignore
      );
      if (focused) [...rows.querySelectorAll<HTMLElement>("button")].find((one) => one.textContent === focused)?.focus({ preventScroll: true }); // prettier-ignore
    },
  };
}

// Interventions on a head: the mask, the bias, the temperature, single numbers. Weights are recomputed from queries and keys; the
// record stays unchanged.
import { button, h, slider } from "../../core/dom";
import { segmentedControl, type View } from "./detail";
import { named, spoken } from "../../core/labels";
import type { HeadsPage } from "./page";
import type { HeadsState } from "./state";
import { type Interventions, movedWeight } from "./weights";

const STEPS = 20; // of the slider, for ten times the temperature

/** The changes that concern one head. */
export const interventionsOf = (state: HeadsState, layer: number, head: number, line: number): Interventions => ({
  causal: state.causal,
  mask: state.mask,
  bias: state.bias,
  temperature: state.temperature,
  hidden: state.hidden[line] ?? [],
  edits: state.edits.filter((edit) => edit.layer === layer && edit.head === head),
});

export function interventionControls(page: HeadsPage): { element: HTMLElement; draw(view: View, column: number): void } {
  const tools = h("div.tools");
  const heat = h("div");
  const note = h("p.notice.changed", { role: "status", hidden: true });
  const show = segmentedControl("what is shown", [["weights", "weights now", "Show the weights after the change"], ["change", "difference", "Show the difference from the model's weights"]], (value) => page.set({ show: value as HeadsState["show"] })); // prettier-ignore
  const element = h("div.change", h("div.row", tools, heat), note);
  const reset = () => {
    const { causal, mask, bias, temperature, hidden, edits, show } = page.schema.initial();
    page.set({ causal, mask, bias, temperature, hidden, edits, show });
  };
  const warm = () =>
    slider(
      "temperature",
      [-STEPS, STEPS],
      Math.round(Math.log10(page.state.temperature) * STEPS),
      (value, step) => page.set({ temperature: Number((10 ** (value / STEPS)).toPrecision(2)) }, { step }),
      (value) => Number((10 ** (value / STEPS)).toPrecision(2)).toString(),
    );
  let drawn = "";
  return {
    element,
    draw(view, column) {
      const { state } = page;
      const { now, before, found, answers } = view;
      const hidden = state.hidden[found.key_sequence] ?? [];
      const computed = Boolean(now.given.q && now.given.k);
      const out = hidden.includes(column);
      const hide = () => page.set({ hidden: { ...state.hidden, [found.key_sequence]: out ? hidden.filter((i) => i !== column) : [...hidden, column].sort((a, b) => a - b) } }); // prettier-ignore
      const focused = tools.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
      tools.replaceChildren(
        ...(computed && (now.given.causal || !found.cross) && now.given.rows > 1 ? [checkbox("causal", "causal mask", "A token attends only to positions up to its own", now.causal, (on) => page.set({ causal: on === now.given.causal ? undefined : on }))] : []), // prettier-ignore
        ...(computed && now.given.seen ? [checkbox("mask", "the model's mask", "The mask that the model was given for this input", state.mask, (mask) => page.set({ mask }))] : []), // prettier-ignore
        ...(computed && now.given.bias
          ? [checkbox("bias", "bias", "The score bias that the model adds", state.bias, (bias) => page.set({ bias }))]
          : []),
        h("button", { type: "button", "data-key": "hide", onclick: hide, title: "No query attends to a masked token: the other keys share its weight" }, out ? "Unmask " : "Mask ", named(answers, column)), // prettier-ignore
        ...hidden.filter((i) => i !== column).slice(0, 12).map((i) => h("button.chip-out", { type: "button", "data-key": `show-${i}`, title: `Unmask ${spoken(answers, i)}`, onclick: () => page.set({ hidden: { ...state.hidden, [found.key_sequence]: hidden.filter((one) => one !== i) } }) }, named(answers, i), " ×")), // prettier-ignore
      );
      if (focused) [...tools.querySelectorAll<HTMLElement>("[data-key]")].find((one) => one.dataset.key === focused)?.focus();
      if (!heat.contains(document.activeElement) || drawn !== String(state.temperature)) {
        const focused = heat.contains(document.activeElement);
        if (!focused || state.temperature === 1) heat.replaceChildren(warm());
      }
      drawn = String(state.temperature);
      note.hidden = !now.changed;
      if (!now.changed) return;
      const row = Math.min(state.row ?? now.given.rows - 1, now.given.rows - 1);
      const share = movedWeight(now.row(row), before.row(row));
      show.draw(state.show);
      note.replaceChildren(
        h("b", "Changed: "),
        `${changeList(view, state).join(", ")}. For the query `,
        named(view.asks, row),
        ` ${(100 * share).toPrecision(3)} % of the weight moved. Statistics and thumbnails are those of the original. `,
        h("span.buttons", show.element, button("Reset", "Undo all changes", reset, { "data-key": "reset" })),
      );
    },
  };
}

/** The changes, a few words each. */
function changeList({ now, found }: View, state: HeadsState): string[] {
  const { given, changes } = now;
  const hidden = state.hidden[found.key_sequence]?.length ?? 0;
  const { length } = changes.edits;
  return [
    now.causal !== given.causal && `causal mask ${now.causal ? "on" : "off"}`,
    !changes.mask && given.seen && "the model's mask off",
    !changes.bias && given.bias && "bias off",
    changes.temperature !== 1 && `temperature ${changes.temperature}`,
    hidden > 0 && `${hidden} ${hidden === 1 ? "token" : "tokens"} masked`,
    length > 0 && `${length} ${length === 1 ? "number" : "numbers"} of q or k edited`,
  ].filter((one) => typeof one === "string");
}

function checkbox(key: string, label: string, title: string, on: boolean, set: (on: boolean) => void): HTMLElement {
  const input = h<HTMLInputElement>("input", {
    type: "checkbox",
    "data-key": key,
    checked: on,
    onchange: () => set(input.checked),
  });
  return h("label.check", { title }, input, label);
}

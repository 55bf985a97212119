// What a person may change of a head: what may be seen, the bias, the temperature, single numbers. Weights are computed again from
// queries and keys; the record stays what it was.
import { button, h, slider } from "../dom";
import { choice, type View } from "./detail";
import { named, spoken } from "./labels";
import type { Reading } from "./page";
import { type HeadsState, initial } from "./state";
import { type Changes, moved } from "./weights";

const STEPS = 20; // of the slider, for ten times the temperature

/** The changes that concern one head. */
export const changesOf = (state: HeadsState, layer: number, head: number, line: number): Changes => ({
  causal: state.causal,
  mask: state.mask,
  bias: state.bias,
  temperature: state.temperature,
  hidden: state.hidden[line] ?? [],
  edits: state.edits.filter((edit) => edit.layer === layer && edit.head === head),
});

export function changes(page: Reading): { element: HTMLElement; draw(view: View, column: number): void } {
  const tools = h("div.tools");
  const heat = h("div");
  const note = h("p.notice.changed", { role: "status", hidden: true });
  const show = choice("what is shown", [["weights", "weights now", "Show the weights after the change"], ["change", "difference", "Show how they differ from what the model gave"]], (value) => page.set({ show: value as HeadsState["show"] })); // prettier-ignore
  const element = h("div.change", h("div.row", tools, heat), note);
  const reset = () => {
    const { causal, mask, bias, temperature, hidden, edits, show } = initial();
    page.set({ causal, mask, bias, temperature, hidden, edits, show });
  };
  const warm = () =>
    slider(
      "temperature",
      [-STEPS, STEPS],
      Math.round(Math.log10(page.state.temperature) * STEPS),
      (value) => page.set({ temperature: Number((10 ** (value / STEPS)).toPrecision(2)) }),
      (value) => Number((10 ** (value / STEPS)).toPrecision(2)).toString(),
    );
  let drawn = "";
  return {
    element,
    draw(view, column) {
      const { state } = page;
      const { now, before, found, answers } = view;
      const hidden = state.hidden[found.answers] ?? [];
      const computed = Boolean(now.given.q && now.given.k);
      const out = hidden.includes(column);
      const hide = () => page.set({ hidden: { ...state.hidden, [found.answers]: out ? hidden.filter((i) => i !== column) : [...hidden, column].sort((a, b) => a - b) } }); // prettier-ignore
      const focused = tools.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
      tools.replaceChildren(
        ...(computed && (now.given.causal || !found.cross) && now.given.rows > 1 ? [check("causal", "causal mask", "Whether a token sees only those up to its own place", now.causal, (on) => page.set({ causal: on === now.given.causal ? undefined : on }))] : []), // prettier-ignore
        ...(computed && now.given.seen ? [check("mask", "the model's mask", "What else may be seen, as the model said it for this input", state.mask, (mask) => page.set({ mask }))] : []), // prettier-ignore
        ...(computed && now.given.bias
          ? [check("bias", "bias", "What the model adds to the scores", state.bias, (bias) => page.set({ bias }))]
          : []),
        h("button", { type: "button", "data-key": "hide", onclick: hide, title: "A hidden token cannot be looked at: the others share its weight" }, out ? "Show " : "Hide ", named(answers, column)), // prettier-ignore
        ...hidden.filter((i) => i !== column).slice(0, 12).map((i) => h("button.chip-out", { type: "button", "data-key": `show-${i}`, title: `Show ${spoken(answers, i)} again`, onclick: () => page.set({ hidden: { ...state.hidden, [found.answers]: hidden.filter((one) => one !== i) } }) }, named(answers, i), " ×")), // prettier-ignore
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
      const share = moved(now.row(row), before.row(row));
      show.draw(state.show);
      note.replaceChildren(
        h("b", "Changed: "),
        `${told(view, state).join(", ")}. In the row of `,
        named(view.asks, row),
        ` ${(100 * share).toPrecision(3)} % of the weight went elsewhere. Figures and small pictures are those of the original. `,
        h("span.buttons", show.element, button("Reset", "As the model computed it", reset, { "data-key": "reset" })),
      );
    },
  };
}

/** What was changed, in a few words each. */
function told({ now, found }: View, state: HeadsState): string[] {
  const { given, changes } = now;
  const hidden = state.hidden[found.answers]?.length ?? 0;
  const { length } = changes.edits;
  return [
    now.causal !== given.causal && `causal mask ${now.causal ? "on" : "off"}`,
    !changes.mask && given.seen && "the model's mask off",
    !changes.bias && given.bias && "bias off",
    changes.temperature !== 1 && `temperature ${changes.temperature}`,
    hidden > 0 && `${hidden} ${hidden === 1 ? "token" : "tokens"} hidden`,
    length > 0 && `${length} ${length === 1 ? "number" : "numbers"} of q or k written`,
  ].filter((one) => typeof one === "string");
}

function check(key: string, label: string, title: string, on: boolean, set: (on: boolean) => void): HTMLElement {
  const input = h<HTMLInputElement>("input", {
    type: "checkbox",
    "data-key": key,
    checked: on,
    onchange: () => set(input.checked),
  });
  return h("label.check", { title }, input, label);
}

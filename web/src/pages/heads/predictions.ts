// The model's predictions in the pass whose attention is shown: classes beside the picture or sound, or the next token after the
// chosen one. The command computed the probabilities.
import { digits } from "../../core/format";
import type { Predictions } from "../../core/contract";
import { h } from "../../core/dom";
import { part } from "../../core/tensor";
import { named, visible } from "../../core/labels";
import type { HeadsPage } from "./page";

/** Predictions and their probabilities at a token, the most probable first; empty where none are recorded. */
export function predictionsAt(
  { kind, names, indices: which, probabilities: shares, first_row: first = 0 }: Predictions,
  row: number,
): [string, number][] {
  const [rows, wide] = shares.shape;
  const at = kind === "class" ? 0 : row - first;
  if (at < 0 || at >= rows) return [];
  const [numbers, chances] = [which, shares].map((array) => part(array, at * wide, (at + 1) * wide));
  return Array.from(chances, (chance, i) => [names[numbers[i]], chance]);
}

export function predictionPanel(page: HeadsPage): { element: HTMLElement; draw(): void } | undefined {
  const found = page.record.predictions;
  if (!found) return undefined;
  const line = page.record.sequences[found.sequence ?? 0];
  const picture = found.kind === "class" && line.kind === "patches" && /^data:image\//.test(line.picture ?? "");
  const after = h("p.quiet", { "aria-live": "polite" });
  const list = h("ol.prediction-list");
  const whole = found.kind !== "class";
  const element = h(
    "section.part.predictions",
    { "data-part": "predictions" },
    picture && h("img", { src: line.picture, alt: "the input picture" }),
    h("div", h("h2", whole ? "Next-token predictions" : "Predictions"), after, list),
  );
  let drawn = NaN;
  return {
    element,
    draw() {
      const [rows] = found.probabilities.shape;
      const last = (found.first_row ?? 0) + rows - 1;
      const { open, row } = page.state;
      const mine = open && page.record.layers[open[0]]?.query_sequence === found.sequence ? row : undefined;
      const at = found.kind === "class" ? 0 : Math.max(found.first_row ?? 0, Math.min(mine ?? last, last));
      if (at === drawn) return;
      drawn = at;
      const best = predictionsAt(found, at);
      const kept = rows === 1 && last > 0 ? " For a long text only the last prediction is kept." : "";
      after.replaceChildren(
        ...(found.kind === "class"
          ? ["The most probable classes for this input, with their probabilities."]
          : ["After ", named(line, at), `: the most probable next tokens, with their probabilities. ␣ is a space.${kept}`]),
      );
      list.replaceChildren(
        ...best.map(
          ([name, chance], i) =>
          h("li", { style: `--share:${chance.toFixed(4)}` }, h("i"), h("bdi", visible(name.replace(/^ (?=\S)/, ""), i)), h("b", { title: digits(chance) }, chance < 1e-4 ? chance.toExponential(1) : chance.toFixed(4))), // prettier-ignore
        ),
      );
    },
  };
}

// What the model answers, in the pass whose attention is shown: a class beside its picture or sound, or the token that follows the
// chosen one. Probabilities were computed by the command.
import { digits } from "../axis";
import type { Says } from "../contract";
import { h } from "../dom";
import { part } from "../tensor";
import { named, visible } from "./labels";
import type { Reading } from "./page";

/** Answers and their probabilities after a token, the likeliest first; nothing where none is kept. */
export function answers({ kind, names, which, shares, first = 0 }: Says, row: number): [string, number][] {
  const [rows, wide] = shares.shape;
  const at = kind === "class" ? 0 : row - first;
  if (at < 0 || at >= rows) return [];
  const [numbers, chances] = [which, shares].map((array) => part(array, at * wide, (at + 1) * wide));
  return Array.from(chances, (chance, i) => [names[numbers[i]], chance]);
}

export function says(page: Reading): { element: HTMLElement; draw(): void } | undefined {
  const found = page.record.says;
  if (!found) return undefined;
  const line = page.record.lines[found.line ?? 0];
  const picture = found.kind === "class" && line.kind === "patches" && /^data:image\//.test(line.picture ?? "");
  const after = h("p.quiet", { "aria-live": "polite" });
  const list = h("ol.answers");
  const whole = found.kind === "class" ? "" : " next";
  const element = h(
    "section.part.says",
    picture && h("img", { src: line.picture, alt: "the picture that the model saw" }),
    h("div", h("h2", `What the model says${whole}`), after, list),
  );
  let drawn = NaN;
  return {
    element,
    draw() {
      const [rows] = found.shares.shape;
      const last = (found.first ?? 0) + rows - 1;
      const { open, row } = page.state;
      const mine = open && page.record.layers[open[0]]?.asks === found.line ? row : undefined;
      const at = found.kind === "class" ? 0 : Math.max(found.first ?? 0, Math.min(mine ?? last, last));
      if (at === drawn) return;
      drawn = at;
      const best = answers(found, at);
      const kept = rows === 1 && last > 0 ? " Of a long text the last answer alone is kept." : "";
      after.replaceChildren(
        ...(found.kind === "class"
          ? ["Its likeliest answers to all of this input, and how probable it takes each to be."]
          : ["After ", named(line, at), `: the likeliest next tokens, and how probable each is.${kept}`]),
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

// The same as tables: scores by step, points of the curve.
import { h } from "../dom";
import { clock, digits } from "../axis";
import { table } from "../tables";
import type { Reading } from "./page";

const ROWS = 100; // of the curve, or a few more

export function scores({ history, run }: Reading): HTMLElement | undefined {
  if (!history.scores.length) return undefined;
  const names = [...history.measured().keys()];
  const last = history.scores.reduce((found, score, i) => (score.best ? i : found), -1);
  const rows = history.scores.map((score, i) => [
    score.step.toLocaleString("en"),
    ...names.map((name) => digits(score.values[name])),
    i === last ? h("b", "the best") : score.best ? "best so far" : "",
  ]);
  const result = Object.entries(run.result ?? {});
  const ends = [...new Set(result.flatMap(([, values]) => Object.keys(values)))];
  return h(
    "section.part.scores",
    h("h2", "Scores"),
    h(
      "div.beside",
      h(
        "div",
        h("h3", "On the validation part, as it learned"),
        table("scores by step", ["step", ...names, ""], rows, { class: "by-step" }),
      ),
      result.length > 0 && h("div", h("h3", "At the end, with the best weights"), table("results", ["part", ...ends], result.map(([part, values]) => [part, ...ends.map((name) => digits(values[name]))]))), // prettier-ignore
    ),
  );
}

/** Every so many-th step, and each that was evaluated. */
export function points({ history, every }: Reading): HTMLElement {
  const apart = Math.max(1, Math.ceil(history.points.length / ROWS));
  const evaluated = new Set(history.scores.map(({ step }) => step));
  const some = history.points.filter((point, i) => i % apart === 0 || i === history.points.length - 1 || evaluated.has(point.step));
  const rows = some.map((p) => [
    p.step.toLocaleString("en"),
    digits(p.loss),
    digits(p.rate),
    digits(p.norm),
    clock(p.seconds),
    Math.round(p.tokens).toLocaleString("en"),
    p.busy == null ? "–" : `${(100 * p.busy).toPrecision(3)} %`,
  ]);
  const heads = ["step", "training loss", "learning rate", "length of the gradient", "time of training", "tokens a second", "share of the machine"]; // prettier-ignore
  const note = apart * every > 1 ? `One of ${apart * every} steps, and each that was evaluated.` : "Every step.";
  return h("div.points", h("p.quiet", note), table("points of the curve", heads, rows));
}

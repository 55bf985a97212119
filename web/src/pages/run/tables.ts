// Tables of a run: scores by step, points of the curve.
import { h } from "../../core/dom";
import { clock, digits } from "../../core/format";
import { table } from "../../core/tables";
import type { RunPage } from "./page";

const ROWS = 100; // of the curve, or a few more

export function scores({ history, run }: RunPage): HTMLElement | undefined {
  if (!history.scores.length) return undefined;
  const names = [...history.measured().keys()];
  const last = history.scores.reduce((found, score, i) => (score.best ? i : found), -1);
  const rows = history.scores.map((score, i) => [
    score.step.toLocaleString("en"),
    ...names.map((name) => digits(score.values[name])),
    i === last ? h("b", "best") : score.best ? "best so far" : "",
  ]);
  const result = Object.entries(run.result ?? {});
  const ends = [...new Set(result.flatMap(([, values]) => Object.keys(values)))];
  return h(
    "section.part.scores",
    { "data-part": "scores" },
    h("h2", "Scores"),
    h(
      "div.beside",
      h(
        "div",
        h("h3", "On the validation part, during training"),
        table("scores by step", ["step", ...names, ""], rows, { class: "by-step" }),
      ),
      result.length > 0 && h("div", h("h3", "At the end, with the best weights"), table("results", ["part", ...ends], result.map(([part, values]) => [part, ...ends.map((name) => digits(values[name]))]))), // prettier-ignore
    ),
  );
}

/** A regular subset of the steps, and each evaluated step. */
export function points({ history, every }: RunPage): HTMLElement {
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
    p.mfu == null ? "–" : `${(100 * p.mfu).toPrecision(3)} %`,
  ]);
  const heads = ["step", "training loss", "learning rate", "gradient norm", "training time", "tokens per second", "MFU"]; // prettier-ignore
  const note = apart * every > 1 ? `Every ${apart * every} steps, and each evaluated step.` : "Every step.";
  return h("div.points", h("p.quiet", note), table("points of the curve", heads, rows));
}

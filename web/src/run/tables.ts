// The same as tables: scores by step, points of the curve, the data, the recipe.
import { h } from "../dom";
import { clock, digits } from "./axis";
import type { Reading } from "./page";

const ROWS = 100; // of the curve, or a few more

const table = (caption: string, heads: string[], rows: (string | Node)[][], more: Record<string, unknown> = {}): HTMLElement =>
  h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      more,
      h("caption.spoken", caption),
      h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
      h("tbody", rows.map((row) => h("tr", row.map((cell, i) => (i ? h("td", cell) : h("th", { scope: "row" }, cell)))))), // prettier-ignore
    ),
  );

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

export function data({ run }: Reading): HTMLElement {
  const rows = run.data.map(({ name, part, bytes, sha256 }) => [
    name,
    part,
    bytes.toLocaleString("en"),
    h("code.digest", { title: sha256 }, sha256),
  ]);
  return table("data", ["file", "part", "bytes", "sha256"], rows, { class: "data" });
}

/** A recipe's tables, each with its fields; inner tables are joined by dots, as --set writes them. */
export function recipe(fields: Record<string, unknown>): HTMLElement {
  const tables = new Map<string, [string, unknown][]>([["", []]]);
  for (const [name, value] of Object.entries(fields))
    if (isTable(value)) tables.set(name, flat(value));
    else tables.get("")!.push([name, value]);
  return h(
    "div.recipe",
    [...tables].map(([name, rows]) =>
      h(
        "div",
        h("h4", name ? `[${name}]` : "recipe"),
        h("dl", rows.map(([field, value]) => h("div", { "data-none": String(value === null) }, h("dt", field), h("dd", written(value))))), // prettier-ignore
      ),
    ),
  );
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function flat(fields: Record<string, unknown>, before = ""): [string, unknown][] {
  return Object.entries(fields).flatMap(([name, value]) =>
    isTable(value) ? flat(value, `${before}${name}.`) : [[`${before}${name}`, value] as [string, unknown]],
  );
}

/** As TOML writes it; what is not set is a dash. */
export const written = (value: unknown): string => (value === null || value === undefined ? "–" : JSON.stringify(value));

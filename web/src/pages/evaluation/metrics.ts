// The metrics of a part: the decisive one as a dot with its interval, above those of the simple models, on one scale; and all as a table.
import { above, percent, rules, upright } from "../../charts/column";
import { paddedRange, type Scale, scale } from "../../charts/scale";
import type { EvaluationRecord, MetricDifference, PartEvaluation } from "../../core/contract";
import { asPart, h, svg } from "../../core/dom";
import { table } from "../../core/tables";
import { named } from "./page";

const HEIGHT = 30; // pixels of a row of the plot
const MINUS = "−";

/** Four digits, and counts in full, as the terminal prints them. */
export function value(x: number | null | undefined, unit = ""): string {
  if (x === null || x === undefined || Number.isNaN(x)) return "no number";
  const rounded = Number(x.toPrecision(4));
  if (Number.isInteger(x) && Math.abs(x) < 1e12) return `${x.toLocaleString("en").replace("-", MINUS)}${unit ? ` ${unit}` : ""}`;
  const text = rounded !== 0 && Math.abs(rounded) < 1e-4 ? rounded.toExponential() : String(rounded);
  return `${text.replace(/^-/, MINUS)}${unit ? ` ${unit}` : ""}`;
}

const interval = (low: number | null | undefined, high: number | null | undefined): string =>
  low == null || high == null ? "–" : `${value(low)} to ${value(high)}`;

interface Row {
  name: string;
  kind: "run" | "other" | "simple";
  value: number;
  low?: number | null;
  high?: number | null;
}

export function metrics(evaluation: EvaluationRecord, part: PartEvaluation): HTMLElement {
  const simple = Object.entries(part.simple ?? {});
  const first = part.metrics.find(({ name }) => simple.some(([, values]) => name in values)) ?? part.metrics[0]; // that can be compared
  const second = (part.differences ?? []).find(({ name }) => name === first.name)?.second;
  const rows: Row[] = first.value == null ? [] : [
    { name: named(evaluation.run), kind: "run", value: first.value, low: first.low, high: first.high },
    ...(second === undefined ? [] : [{ name: named(evaluation.other!), kind: "other" as const, value: second }]),
    ...simple.flatMap(([name, values]) => (first.name in values ? [{ name: `simple model: ${name}`, kind: "simple" as const, value: values[first.name] }] : [])), // prettier-ignore
  ]; // prettier-ignore
  const heads = ["metric", "value", "95 % interval", ...simple.map(([name]) => name)];
  const lines = part.metrics.map(({ name, value: x, unit, low, high }) => [
    name,
    value(x, unit),
    interval(low, high),
    ...simple.map(([, values]) => (name in values ? value(values[name], unit) : "–")),
  ]);
  return asPart(
    "metrics",
    h(
      "section.part",
      h("h2", "Metrics"),
      rows.length > 1 && plotted(first.name, rows),
      table("metrics", heads, lines, { class: "measures" }),
      h("p.quiet", "Intervals are over these examples: another seed, or other training data, may differ by more."),
    ),
  );
}

/** Each model as a row, all on one scale. */
function plotted(metric: string, rows: Row[]): HTMLElement {
  const all = rows.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  const shared = scale(paddedRange(all, false, 0.06), [2, 98], 4);
  return h(
    "div.beside",
    { role: "img", "aria-label": `${metric}: ${rows.map(({ name, value: x, low, high }) => `${name} ${value(x)}${low == null ? "" : `, interval ${interval(low, high)}`}`).join("; ")}` }, // prettier-ignore
    h("span.quiet", metric),
    above(shared),
    h("span"),
    rows.flatMap((row) => [h("span.who", { "data-kind": row.kind }, row.name), strip(row, shared), h("b", value(row.value))]),
  );
}

function strip({ kind, value: x, low, high }: Row, shared: Scale): SVGElement {
  const [middle, at] = [HEIGHT / 2, percent(shared.place(x))];
  return svg(
    "svg.strip",
    { width: "100%", height: HEIGHT, "data-kind": kind, "aria-hidden": "true" },
    rules(shared),
    low != null && high != null && svg("line.interval", { x1: percent(shared.place(low)), x2: percent(shared.place(high)), y1: middle, y2: middle }), // prettier-ignore
    kind === "simple" ? upright("line.simple", shared, x, 5, HEIGHT - 5) : svg("circle.value", { cx: at, cy: middle, r: 5 }),
  );
}

/** Two runs on the same examples. */
export function differences(evaluation: EvaluationRecord, part: PartEvaluation): HTMLElement {
  const [run, other] = [named(evaluation.run), named(evaluation.other!)];
  const all = part.differences!;
  const heads = ["metric", run, other, "difference", "95 % interval", "p (McNemar)"];
  const rows = all.map((d) => [d.name, value(d.first), value(d.second), value(d.difference), interval(d.low, d.high), d.p == null ? "–" : String(Number(d.p.toPrecision(2)))]); // prettier-ignore
  return asPart(
    "differences",
    h(
      "section.part",
      h("h2", "Two runs on the same examples"),
      h("p", said(all[0])),
      table("differences", heads, rows, { class: "measures" }),
    ),
  );
}

function said({ name, low, high, difference }: MetricDifference): string {
  if (low == null || high == null) return `The difference of ${name} is ${value(difference)}; it has no interval.`;
  const about = `The difference of ${name} is ${value(difference)}, with a 95 % interval of ${interval(low, high)}`;
  return low <= 0 && high >= 0 ? `${about}: no significant difference.` : `${about}, which does not contain 0.`;
}

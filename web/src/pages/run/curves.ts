// The charts of a run: the loss large, the other measures small below it, with one cursor through all of them.
import type { Score } from "../../core/contract";
import { button, h, select } from "../../core/dom";
import { clock, digits, short } from "../../charts/axis";
import { type Chart, chart, type Curve, type Plot } from "./chart";
import { below, type History, type Line, type Measure, smoothed, span } from "./history";
import { capital } from "../../core/format";
import type { RunPage } from "./page";
import { OVERS } from "./state";

interface Small {
  title: string;
  unit?: string;
  measure?: Measure;
  score?: string;
  colour: string;
  smooth: boolean;
  low?: number;
  text(value: number): string;
}

const percent = (value: number): string => `${(100 * value).toPrecision(3)} %`;
const MEASURES: Small[] = [
  { title: "Learning rate", measure: "rate", colour: "--rated", smooth: false, low: 0, text: digits },
  { title: "Gradient norm", measure: "norm", colour: "--normed", smooth: true, low: 0, text: digits },
  { title: "Tokens per second", measure: "tokens", colour: "--paced", smooth: true, low: 0, text: (v) => Math.round(v).toLocaleString("en") }, // prettier-ignore
  { title: "Model FLOPs utilization (MFU)", measure: "busy", colour: "--paced", smooth: true, low: 0, text: percent },
];

export interface Curves {
  element: HTMLElement;
  draw(): void;
}

export function curves(page: RunPage): Curves {
  const { history } = page;
  const choosing = {
    places: () => over(page, history.of("step")),
    choose: (index: number | undefined) => page.point(index),
    read: (index: number) => stepSentence(page, index),
    at: () => page.cursor,
  };
  const large = chart(340, { label: "Loss by step", ...choosing });
  const row = h("dl.readout", { "aria-hidden": "true" });
  const small = h("div.small");
  const charts = new Map<string, { chart: Chart; value: HTMLElement; card: HTMLElement }>();
  const bar = h("div.controls");
  const element = h("section.part.curves", { "data-part": "curves" }, h("h2", "Loss"), bar, large.element, row, small);

  function draw(): void {
    const { state, cursor } = page;
    const x = over(page, history.of("step"));
    const wide = range(page, x);
    const marked = state.at === undefined ? undefined : over(page, [state.at])[0];
    const common = { x: wide, across: (v: number) => (state.over === "time" ? clock(v) : short(v)), marked };
    const size = smoothing(page);
    bar.replaceChildren(...controls(page, size));
    large.draw({ ...common, log: state.log, curves: losses(page, x, size) }, cursor === undefined ? undefined : x[cursor]);
    row.replaceChildren(...readout(page));
    const cards: HTMLElement[] = [];
    for (const one of [...MEASURES.filter((m) => !empty(history, m)), ...scored(history)]) {
      if (!charts.has(one.title)) {
        const value = h("b");
        const c = chart(130, { label: `${one.title} by step`, ...choosing });
        const card = h("figure", h("figcaption", h("span", one.title), value), c.element);
        charts.set(one.title, { chart: c, value, card });
      }
      const { chart: drawing, value, card } = charts.get(one.title)!;
      cards.push(card);
      if (small.children[cards.length - 1] !== card) small.insertBefore(card, small.children[cards.length - 1] ?? null);
      const [lines, text] = one.score ? scoreLine(page, one) : measureLine(page, one, x, size);
      value.textContent = text;
      const plot: Plot = { ...common, log: false, low: one.low, curves: lines };
      drawing.draw(plot, cursor === undefined ? undefined : x[cursor]);
    }
  }
  return { element, draw };
}

/** Steps on the x axis: themselves, or the training time up to them. */
function over({ state, history }: RunPage, steps: ArrayLike<number>): ArrayLike<number> {
  return state.over === "steps" ? steps : Array.from(steps, (step) => history.time(step));
}

/** The range of the x axis: up to the last step, and the whole run once a third of it is done. */
function range({ state, run }: RunPage, x: ArrayLike<number>): [number, number] {
  const last = x.length ? x[x.length - 1] : 1;
  const whole = state.over === "steps" && last > run.steps / 3 ? run.steps : last;
  return [0, Math.max(whole, last, 1)];
}

const smoothing = ({ state, history }: RunPage): number => state.smooth || span(history.points.length);

function controls(page: RunPage, size: number): HTMLElement[] {
  const { state } = page;
  const sizes = [...new Set([1, 5, 10, 20, 50, 100, 200, 500, 1000, size])].sort((a, b) => a - b).filter((s) => s <= Math.max(page.history.points.length, 10)); // prettier-ignore
  const key = (kind: string, text: string) => h("span", h(`i.${kind}`), text);
  return [
    h(
      "div.key",
      key("trained.raw", page.every > 1 ? `training, every ${page.every} steps` : "training, each step"),
      size > 1 && key("trained", `mean of the last ${size}${page.every > 1 ? " of these" : " steps"}`),
      page.history.scores.length > 0 && key("validated", page.history.scores[0].part),
      page.history.scores.length > 0 && key("best", "best"),
    ),
    h(
      "div.buttons",
      button("Logarithmic", "The loss on a logarithmic axis", () => page.set({ log: !state.log }), { "aria-pressed": String(state.log) }), // prettier-ignore
      select("x axis", OVERS.map((name) => ({ name, title: name === "time" ? "training time" : "steps" })), state.over, (name) => page.set({ over: OVERS.find((o) => o === name)! })), // prettier-ignore
      select("Smoothing", sizes.map((s) => ({ name: String(s), title: s === 1 ? "none" : `${s} steps` })), String(size), (s) => page.set({ smooth: Number(s) })), // prettier-ignore
    ),
  ];
}

function losses(page: RunPage, x: ArrayLike<number>, size: number): Curve[] {
  const { history } = page;
  const y = history.of("loss");
  const lines: Curve[] = [{ name: "training", colour: "--trained", kind: size > 1 ? "raw" : "line", x, y, label: size <= 1 }];
  if (size > 1) lines.push({ name: "training", colour: "--trained", kind: "line", x, y: smoothed(y, size), label: true });
  const scores = history.scores.filter(({ values }) => "loss" in values);
  if (scores.length) lines.push({ ...scoreCurve(page, scores, "loss"), name: scores[0].part, label: true });
  return lines;
}

function scoreCurve(page: RunPage, scores: Score[], name: string): Curve {
  const best = scores.reduce((found, score, i) => (score.best ? i : found), -1);
  const at: Line = { x: over(page, scores.map(({ step }) => step)), y: scores.map(({ values }) => values[name] ?? NaN) }; // prettier-ignore
  return { name, colour: "--validated", kind: "dots", best, ...at };
}

function measureLine(page: RunPage, one: Small, x: ArrayLike<number>, size: number): [Curve[], string] {
  const y = page.history.of(one.measure!);
  const lines: Curve[] = [{ name: one.title, colour: one.colour, kind: one.smooth && size > 1 ? "raw" : "line", x, y }];
  if (one.smooth && size > 1) lines.push({ name: one.title, colour: one.colour, kind: "line", x, y: smoothed(y, size) });
  const value = y[page.cursor ?? y.length - 1];
  return [lines, value === undefined || Number.isNaN(value) ? "–" : one.text(value)];
}

function scoreLine(page: RunPage, one: Small): [Curve[], string] {
  const scores = page.history.measured().get(one.score!)!;
  const steps = page.history.of("step");
  const step = page.cursor === undefined ? Infinity : steps[page.cursor];
  const at = Math.max(0, below(scores.map((score) => score.step), step)); // prettier-ignore
  return [[scoreCurve(page, scores, one.score!)], one.text(scores[at].values[one.score!] ?? NaN)];
}

/** Validation metrics other than the loss, which is drawn above, and those that never change. */
const scored = (history: History): Small[] =>
  [...history.measured()]
    .filter(
      ([name, scores]) =>
        name !== "loss" && (scores.length < 2 || scores.some(({ values }) => values[name] !== scores[0].values[name])),
    )
    .map(([name, scores]) => ({
      title: `${capital(scores[0].part)}: ${name}`,
      score: name,
      colour: "--validated",
      smooth: false,
      text: digits,
    }));

const empty = (history: History, { measure }: Small): boolean => history.points.every((point) => point[measure!] == null);

/** The numbers of one step as the record has them; by default the last. */
function readout(page: RunPage): HTMLElement[] {
  const { history, cursor } = page;
  const point = history.points[cursor ?? history.points.length - 1];
  if (!point) return [];
  const score = history.scores.find(({ step }) => step === point.step);
  const first = score && Object.entries(score.values)[0];
  const cells: [string, string, number | undefined | null][] = [
    ["step", point.step.toLocaleString("en"), point.step],
    ["training loss", digits(point.loss), point.loss],
    ...(first ? [[`${score.part} ${first[0]}`, digits(first[1]), first[1]] as [string, string, number | null]] : []),
    ["learning rate", digits(point.rate), point.rate],
    ["gradient norm", digits(point.norm), point.norm],
    ["tokens/s", Math.round(point.tokens).toLocaleString("en"), point.tokens],
    ["MFU", point.busy == null ? "–" : percent(point.busy), point.busy],
    ["training time", clock(point.seconds), point.seconds],
  ];
  return cells.map(([name, text, value]) => h("div", h("dt", name), h("dd", { "data-value": value, title: value }, text)));
}

/** The same as a sentence. */
export function stepSentence({ history }: RunPage, index: number): string {
  const point = history.points[index];
  if (!point) return "nothing yet";
  const score = history.scores.find(({ step }) => step === point.step);
  const values = Object.entries(score?.values ?? {}).map(([name, value]) => `, ${score!.part} ${name} ${digits(value)}`);
  return `step ${point.step}: training loss ${digits(point.loss)}${values.join("")}, learning rate ${digits(point.rate)}, gradient norm ${digits(point.norm)}`;
}

// The charts of a run: the loss large, the other measures small below it, with one cursor through all of them.
import { type Plot, plot } from "../../charts/plot";
import { paddedRange } from "../../charts/scale";
import { saving } from "../../charts/section";
import type { Mark, Picture, Series } from "../../charts/series";
import type { Score } from "../../core/contract";
import { button, h, select } from "../../core/dom";
import { below, type History, type Measure, smoothed, span } from "./history";
import { capital, clock, digits, short } from "../../core/format";
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
  { title: "Model FLOPs utilization (MFU)", measure: "mfu", colour: "--paced", smooth: true, low: 0, text: percent },
];

export interface Curves {
  element: HTMLElement;
  draw(): void;
  point(): void; // only what is pointed at
}

export function curves(page: RunPage): Curves {
  const { history } = page;
  const chart = (label: string): Plot =>
    plot(label, (chosen) => page.point(chosen?.mark), (index) => stepSentence(page, index)); // prettier-ignore
  const large = chart("Loss by step");
  const row = h("dl.readout", { "aria-hidden": "true" });
  const small = h("div.small");
  const charts = new Map<string, { one: Small; chart: Plot; value: HTMLElement; card: HTMLElement }>();
  const bar = h("div.controls");
  const element: HTMLElement = h(
    "section.part.curves",
    { "data-part": "curves" },
    h(
      "div.head",
      h("h2", "Loss"),
      saving(() => element, "equiscope-curves", "Loss"),
    ),
    bar,
    large.element,
    row,
    small,
  );

  function draw(): void {
    const { state } = page;
    const x = over(page, history.of("step"));
    const size = smoothing(page);
    const uprights = state.at === undefined ? [] : [{ x: over(page, [state.at])[0] }];
    const text = state.over === "time" ? clock : short;
    const common = { x: { range: range(page, x), text }, along: x, uprights };
    bar.replaceChildren(...controls(page, size));
    large.draw({ ...common, names: "ends", height: 340, y: levels(state.log), series: losses(page, x, size) });
    const cards: HTMLElement[] = [];
    for (const one of [...MEASURES.filter((m) => !empty(history, m)), ...scored(history)]) {
      if (!charts.has(one.title)) {
        const value = h("b");
        const made = chart(`${one.title} by step`);
        const card = h("figure", h("figcaption", h("span", one.title), value), made.element);
        charts.set(one.title, { one, chart: made, value, card });
      }
      const { chart: made, card } = charts.get(one.title)!;
      cards.push(card);
      if (small.children[cards.length - 1] !== card) small.insertBefore(card, small.children[cards.length - 1] ?? null);
      const series = one.score ? scoreSeries(page, one) : measureSeries(page, one, x, size);
      made.draw({ ...common, height: 140, y: levels(false, one.low, series), series });
    }
    point();
  }

  /** The numbers at the step that is pointed at, by default those of the last. */
  function point(): void {
    const chosen = page.cursor === undefined ? undefined : { series: 0, mark: page.cursor };
    row.replaceChildren(...readout(page));
    large.point(chosen);
    for (const { one, chart, value } of charts.values()) {
      chart.point(chosen);
      value.textContent = one.score ? scoreText(page, one) : measureText(page, one);
    }
  }
  return { element, draw, point };
}

/** The y axis; from `low` up where all numbers lie above it. */
function levels(log: boolean, low?: number, series: Series[] = []): Picture["y"] {
  if (low === undefined) return { log, air: 0.04 };
  const values = series.flatMap(({ marks, line }) => [...marks.map(({ y }) => y ?? NaN), ...(Array.isArray(line) ? line.map(([, y]) => y) : [])]); // prettier-ignore
  const [least, most] = paddedRange([...values, low], false, 0.04);
  return { range: [Math.min(...values) >= low ? low : least, most] };
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

function losses(page: RunPage, x: ArrayLike<number>, size: number): Series[] {
  const { history } = page;
  const scores = history.scores.filter(({ values }) => "loss" in values);
  const validation = scores.length ? [{ ...scoreOf(page, scores, "loss"), name: scores[0].part }] : [];
  return [...validation, ...lines("training", "--trained", x, history.of("loss"), size)].map((one) => ({
    ...one,
    ends: last(one),
  }));
}

const last = ({ marks, line }: Series): string | undefined => {
  const y = marks.at(-1)?.y ?? (Array.isArray(line) ? line.at(-1)?.[1] : undefined);
  return y == null ? undefined : short(y);
};

/** A curve, and its running mean where that is over more than one step. */
function lines(name: string, colour: string, x: ArrayLike<number>, y: ArrayLike<number>, size: number): Series[] {
  const one = (name: string, y: ArrayLike<number>, faint: boolean): Series => {
    const line = Array.from(x, (x, i): [number, number] => [x, y[i]]);
    const end = line.length ? [{ x: line.at(-1)![0], y: line.at(-1)![1], sentence: "" }] : []; // where its name stands
    return { name, look: 0, ink: { style: `--look: var(${colour})` }, marks: faint ? [] : end, line, faint, plain: true };
  };
  return size > 1 ? [one(name, smoothed(y, size), false), one("", y, true)] : [one(name, y, false)];
}

function scoreOf(page: RunPage, scores: Score[], name: string): Series {
  const best = scores.reduce((found, score, i) => (score.best ? i : found), -1);
  const x = over(page, scores.map(({ step }) => step)); // prettier-ignore
  const marks = scores.map(({ values }, i): Mark => ({ x: x[i], y: values[name] ?? NaN, sentence: "" }));
  return { name: "", look: 0, ink: { style: "--look: var(--validated)" }, marks, line: "marks", plain: true, signs: "dots", best };
}

const measureSeries = ({ history }: RunPage, { colour, measure, smooth }: Small, x: ArrayLike<number>, size: number): Series[] =>
  lines("", colour, x, history.of(measure!), smooth ? size : 1);

function measureText({ history, cursor }: RunPage, { measure, text }: Small): string {
  const y = history.of(measure!);
  const value = y[cursor ?? y.length - 1];
  return value === undefined || Number.isNaN(value) ? "–" : text(value);
}

const scoreSeries = (page: RunPage, { score }: Small): Series[] => [scoreOf(page, page.history.measured().get(score!)!, score!)];

function scoreText({ history, cursor }: RunPage, { score, text }: Small): string {
  const scores = history.measured().get(score!)!;
  const step = cursor === undefined ? Infinity : history.of("step")[cursor];
  const at = Math.max(0, below(scores.map((score) => score.step), step)); // prettier-ignore
  return text(scores[at].values[score!] ?? NaN);
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
    ["MFU", point.mfu == null ? "–" : percent(point.mfu), point.mfu],
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

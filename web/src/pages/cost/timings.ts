// Times measured on this machine over the formulas. They differ where a call has overhead, or where the work is no matrix product.
import type { Rate, Speeds, Timing } from "../../core/contract";
import { section } from "../../charts/section";
import type { Mark, Picture, Series } from "../../charts/series";
import { h } from "../../core/dom";
import { partInk } from "./bars";
import { all, amount, brief, whole } from "./formula";
import type { CostPage } from "./page";
import { type CostState, chosen } from "./state";

const NAMES: Record<Timing["part"], string> = {
  attention: "attention, fused kernel",
  "step by step": "attention, eager",
  "feed-forward": "feed-forward",
};
const LOOKS: Record<Timing["part"], [number, string]> = { attention: [0, "projections"], "step by step": [2, "scores"], "feed-forward": [1, "feed-forward"] }; // prettier-ignore
const VIEWS: [CostState["view"], string][] = [
  ["work", "multiply-adds"],
  ["tokens", "tokens"],
  ["heads", "heads"],
];

export const ms = (value: number): string => `${Number(value.toPrecision(3)).toLocaleString("en")} ms`;

/** The time of so many multiply-adds by the fit. */
export const fitted = ({ overhead, rate }: Rate, work: number): number => overhead + work / rate;

const sentence = (one: Timing): string =>
  `${NAMES[one.part]}, N = ${whole(one.n)}, D = ${whole(one.d)}${one.heads ? `, H = ${one.heads}` : ""}: ${ms(one.median)} (quartiles ${ms(one.low)} to ${ms(one.high)}) for ${whole(one.multiply_adds)} multiply-adds, ${brief((one.multiply_adds / one.median) * 1000)} per second`; // prettier-ignore

/** The width with the most timed lengths, and the timings over the number of heads. */
export function subjects({ timings: timed }: Speeds): { width: number; heads: Timing[] } {
  const many = new Map<number, Set<number>>();
  for (const { fitted, n, d } of timed) if (fitted !== false) many.set(d, (many.get(d) ?? new Set()).add(n));
  const width = [...many].reduce((best, one) => (one[1].size > best[1].size ? one : best))[0];
  const other = timed.find(({ fitted }) => fitted === false);
  return { width, heads: other ? timed.filter(({ n, d, heads }) => n === other.n && d === other.d && heads) : [] };
}

/** The picture of one view. */
export function picture(speeds: Speeds, view: CostState["view"]): Picture {
  const { width, heads } = subjects(speeds);
  const parts = (Object.keys(NAMES) as Timing["part"][]).filter((part) => view !== "heads" || part !== "feed-forward");
  const series = parts.map((part): Series => {
    const [look, colour] = LOOKS[part];
    const found = (view === "heads" ? heads : speeds.timings.filter(({ fitted }) => fitted !== false)).filter(
      (one) => one.part === part && (view !== "tokens" || one.d === width),
    );
    const x = (one: Timing) => (view === "work" ? one.multiply_adds : view === "tokens" ? one.n : one.heads);
    const marks = [...found]
      .sort((a, b) => x(a) - x(b))
      .map((one): Mark => ({ x: x(one), y: one.median, low: one.low, high: one.high, sentence: sentence(one) }));
    const rate = speeds.rates.find((one) => one.part === part);
    const formula = [...found].sort((a, b) => x(a) - x(b)).map((one) => [x(one), one.multiply_adds] as const);
    const line = rate ? formula.flatMap(([at, work], i) => between(at, work, formula[i + 1]).map(([x, work]): [number, number] => [x, fitted(rate, work)])) : []; // prettier-ignore
    return { look, ink: partInk(colour), name: NAMES[part], marks, signs: "all", line, plain: true };
  });
  const at = heads[0];
  const across = { work: "multiply-adds", tokens: `tokens N, at D = ${width}`, heads: at ? `heads H, at N = ${at.n}, D = ${at.d}` : "heads H" }[view]; // prettier-ignore
  return {
    series: series.filter(({ marks }) => marks.length),
    x: { title: across, log: true, air: 0.02, ticks: view === "heads" ? [...new Set(heads.map(({ heads }) => heads))] : undefined },
    y: { title: "milliseconds of one layer", log: true, air: 0.04 },
  };
}

/** A point and interpolated ones up to the next, evenly spaced on the logarithmic axis. */
function between(x: number, work: number, next?: readonly [number, number]): [number, number][] {
  if (!next || next[0] <= x) return [[x, work]];
  return Array.from({ length: 8 }, (_, i): [number, number] => [x * (next[0] / x) ** (i / 8), work * (next[1] / work) ** (i / 8)]);
}

export function timings(page: CostPage, speeds: Speeds): { element: HTMLElement; draw(): void } {
  const views = VIEWS.filter(([name]) => name !== "heads" || subjects(speeds).heads.length > 1).map(([name, title]) => {
    const press = h<HTMLButtonElement>("button", { type: "button", onclick: () => page.set({ view: name }) }, title);
    return { name, press };
  });
  const view = () => (views.some(({ name }) => name === page.state.view) ? page.state.view : "work"); // a link may ask for what was not timed
  const rates = speeds.rates.map(({ part, overhead, rate }) =>
    h("div", h("dt", NAMES[part]), h("dd", `${ms(overhead)} + multiply-adds / ${brief(rate * 1000)} per second`)),
  );
  const [here, why] = [h("p.here"), h("p.why")];
  const shown = section({
    id: "measured",
    file: "equiscope-cost-measured",
    title: "Measured on this machine",
    hint: "Point at a marker or use the arrow keys: left and right along a part, up and down between parts.",
    before: h(
      "div",
      h("p.about", `${speeds.cpu}, ${speeds.threads === 1 ? "one thread" : `${speeds.threads} threads`}, torch ${speeds.torch}, ${speeds.dtype}, forward, one sequence; medians of ${speeds.rounds} interleaved calls when this page was made. Lines: the formulas at the fitted rate.`), // prettier-ignore
      h("dl.facts", rates),
    ),
    choices: () => views.map(({ press }) => press),
    after: h("div.remarks", why, here),
    picture: () => picture(speeds, view()),
    table: () => ({
      heads: ["part", "tokens", "width", "heads", "multiply-adds", "ms", "lower quartile", "upper quartile", "ms by the fit"],
      rows: speeds.timings.map((one) => {
        const rate = speeds.rates.find(({ part }) => part === one.part);
        return [NAMES[one.part], whole(one.n), whole(one.d), one.heads ? whole(one.heads) : "–", whole(one.multiply_adds), ...[one.median, one.low, one.high, rate ? fitted(rate, one.multiply_adds) : NaN].map((value) => (Number.isNaN(value) ? "–" : String(Number(value.toPrecision(4)))))]; // prettier-ignore
      }),
    }),
  });
  const draw = () => {
    for (const { name, press } of views) press.setAttribute("aria-pressed", String(name === view()));
    why.textContent = explained(speeds, view());
    here.textContent = prediction(page, speeds);
    shown.draw();
  };
  return { element: shown.element, draw };
}

/** Where the points leave the lines, with measured numbers. */
export function explained(speeds: Speeds, view: CostState["view"]): string {
  if (view === "heads") {
    const same = subjects(speeds).heads.filter(({ part }) => part === "step by step");
    const [least, most] = [same.reduce((a, b) => (b.median < a.median ? b : a)), same.reduce((a, b) => (b.median > a.median ? b : a))]; // prettier-ignore
    return `The number of heads does not change the multiply-adds, ${whole(least.multiply_adds)} each time, but it changes the time: eager attention takes ${ms(least.median)} with ${least.heads} and ${ms(most.median)} with ${most.heads}. Each head has an attention matrix of its own, and the softmax computes H·N² exponentials.`; // prettier-ignore
  }
  const far = speeds.timings.flatMap((one) => {
    const rate = speeds.rates.find(({ part }) => part === one.part);
    if (!rate || one.fitted === false) return [];
    const alone = one.multiply_adds / rate.rate;
    return [{ one, times: one.median / alone, start: rate.overhead > (one.median - alone) / 2 }];
  });
  if (!far.length) return "No rate fits these times: the machine was busy, or too few sizes were timed.";
  const { one, times, start } = far.reduce((a, b) => (b.times > a.times ? b : a));
  const where = `${NAMES[one.part]} at N = ${whole(one.n)}, D = ${whole(one.d)} takes ${Number(times.toPrecision(2))} times as long as its multiply-adds would at that rate`; // prettier-ignore
  return `Largest deviation: ${where}. ${start ? "The overhead of a call dominates." : "Softmax and memory traffic are not counted as multiply-adds, or the machine was busy."}`; // prettier-ignore
}

/** The prediction of the fit for one layer of the chosen model. */
function prediction(page: CostPage, speeds: Speeds): string {
  const model = chosen(page.cost, page.state);
  const one = { ...model, sizes: { ...model.sizes, L: 1 } };
  const found = (["attention", "feed-forward"] as const).map((group) => {
    const works = page.cost.parts.filter((work) => work.group === group && work.counted !== false);
    return Number(works.reduce((sum, work) => sum + amount(work.full_pass ?? [], one), 0n));
  });
  const rates = (["attention", "feed-forward"] as const).map((part) => speeds.rates.find((rate) => rate.part === part));
  if (!rates[0] || !rates[1]) return "";
  const most = Math.max(...speeds.timings.map(({ multiply_adds }) => multiply_adds));
  const far = Math.max(...found) > 4 * most ? `; that is ${brief(Math.round(Math.max(...found) / most))} times beyond what was timed` : ""; // prettier-ignore
  const pass = Number(all(page.cost, "full_pass", model));
  const times = found.map((work, i) => fitted(rates[i]!, work));
  return `At the sizes above the fit gives one layer ${ms(times[0])} of attention and ${ms(times[1])} of feed-forward on this machine, and a pass of ${brief(pass)} multiply-adds ${duration(pass / rates[1].rate)} at the feed-forward's rate${far}.`; // prettier-ignore
}

/** A duration in milliseconds in a readable unit. */
export function duration(value: number): string {
  if (value < 1000) return ms(value);
  const seconds = value / 1000;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${Number((seconds / 60).toPrecision(3))} min`;
  return `${brief(Number((seconds / 3600).toPrecision(3)))} h`;
}

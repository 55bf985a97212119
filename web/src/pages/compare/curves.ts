// Learning curves: the mean over the seeds of each candidate, and their spread.
import { paddedRange } from "../../charts/scale";
import { type Section, section } from "../../charts/section";
import type { Mark, Picture, Series } from "../../charts/series";
import { button, select } from "../../core/dom";
import { short } from "../../core/format";
import { curve, type Group, steps } from "./groups";
import { fixed, withSpread, rangeText } from "./numbers";
import type { ComparePage } from "./page";
import { HINT, ranking, toggles } from "./legend";
import { BANDS } from "./state";

const BAND = {
  range: ["range", "bands: range over seeds"],
  spread: ["± standard deviation", "bands: ± one standard deviation"],
  seeds: ["every seed", "faint lines: seeds"],
} as const;

export function curves(page: ComparePage): Section | undefined {
  const { comparison } = page;
  if (!page.groups.some((group) => curve(group).length > 1)) return undefined;
  const measured = comparison.trials.flatMap(({ result }) => Object.keys(result?.validation ?? {}).slice(0, 1))[0] ?? comparison.metric; // prettier-ignore
  const words = `validation ${measured}`;
  const way = measured === comparison.metric ? `, ${comparison.better} is better` : ""; // the direction of another metric is unknown
  const several = comparison.seeds.length > 1;

  const series = (): Series[] => page.drawn().map((group) => line(group, page, words));
  const picture = (): Picture => {
    const found = series();
    const marks = found.flatMap(({ marks }) => marks);
    const last = Math.max(...marks.map(({ x }) => x), 1);
    const from = page.state.end ? last / 2 : Math.min(...marks.map(({ x }) => x), last);
    const log = page.state.log && marks.every(({ y }) => (y ?? 0) > 0);
    return {
      names: "ends",
      series: found.map((one) => ({ ...one, marks: one.marks.filter(({ x }) => x >= from), threads: one.threads?.map((seed) => seed.filter(([x]) => x >= from)) })), // prettier-ignore
      x: { title: "training steps", range: [from, last], text: short },
      y: { title: `${words}${way}`, log, range: paddedRange(kept(found, from, log), log, 0.05) },
    };
  };
  return section({
    id: "curves",
    file: `${page.file}-curves`,
    title: "Learning curves",
    hint: HINT,
    legend: () => toggles(page),
    caption: () =>
      several
        ? `Validation part. Lines: mean over seeds; ${BAND[page.state.band][1]}.`
        : "Validation part, one seed of each candidate.",
    picture,
    choices: () => [
      several && select("Band", BANDS.map((name) => ({ name, title: BAND[name][0] })), page.state.band, (name) => page.set({ band: BANDS.find((one) => one === name)! })), // prettier-ignore
      button("Second half", "Only the second half of training", () => page.set({ end: !page.state.end }), { "aria-pressed": String(page.state.end), "data-key": "end" }), // prettier-ignore
      button("Logarithmic", `${words} on a logarithmic axis`, () => page.set({ log: !page.state.log }), { "aria-pressed": String(page.state.log), "data-key": "log" }), // prettier-ignore
    ],
    notes: () => leavesPlot(series(), page.state.log) ? ["A line leaves the plot at the top: its numbers are far larger than the others. The logarithmic axis and the table show them."] : [], // prettier-ignore
    read(chosen, { series }) {
      const step = series[chosen.series].marks[chosen.mark].x;
      const rows = page.drawn().flatMap((group, i) => {
        const found = curve(group).find(({ x }) => x === step);
        return found ? [{ look: group.index, name: group.candidate.name, text: withSpread(found.value, page.decimals), sort: found.value.mean, lit: i === chosen.series }] : []; // prettier-ignore
      });
      return ranking(`after step ${step.toLocaleString("en")}`, rows, comparison.better === "more");
    },
    table() {
      const all = page.drawn().map((group) => ({ group, found: new Map(curve(group).map(({ x, value }) => [x, value])) }));
      const allSteps = [...new Set(all.flatMap(({ found }) => [...found.keys()]))].sort((a, b) => a - b);
      return {
        heads: ["step", ...all.map(({ group }) => group.candidate.name)],
        rows: allSteps.map((step) => [
          step.toLocaleString("en"),
          ...all.map(({ found }) => (found.has(step) ? withSpread(found.get(step)!, page.decimals) : "–")),
        ]),
      };
    },
  });
}

function line(group: Group, page: ComparePage, words: string): Series {
  const { name } = group.candidate;
  const marks = curve(group).map(({ x, value }): Mark => {
    const band = value.sd === undefined || page.state.band === "seeds" ? {} : page.state.band === "spread" ? { low: value.mean - value.sd, high: value.mean + value.sd } : { low: value.low, high: value.high }; // prettier-ignore
    return { x, y: value.mean, sentence: `${name}, step ${x}: ${words} ${rangeText(value, page.decimals)}`, ...band };
  });
  const every = page.state.band === "seeds" && group.trials.length > 1;
  const seeds = every ? group.trials.map((trial) => steps(trial).filter((pair): pair is [number, number] => pair[1] !== null)) : undefined; // prettier-ignore
  const last = marks.at(-1)?.y;
  return {
    look: group.index,
    name: group.label,
    ends: last == null ? undefined : fixed(last, Math.min(page.decimals, 3)),
    marks,
    line: "marks",
    signs: "few",
    band: true,
    threads: seeds,
  };
}

/** Where a line goes beyond twice the median of the lines' maxima, that is the upper end: a diverging run must not flatten the others. */
const ceiling = (series: Series[]): number => {
  const tops = series.map(({ marks }) => Math.max(...marks.map(({ y }) => y ?? -Infinity))).filter(Number.isFinite).sort((a, b) => a - b); // prettier-ignore
  const middle = tops[(tops.length - 1) >> 1] ?? 0;
  return middle > 0 && (tops.at(-1) ?? 0) > 2 * middle ? 2 * middle : Infinity;
};

const values = (series: Series[], from = -Infinity): number[] =>
  series.flatMap(({ marks, threads }) => [
    ...marks.filter(({ x }) => x >= from).flatMap(({ y, low, high }) => [y ?? NaN, low ?? NaN, high ?? NaN]),
    ...(threads ?? []).flatMap((seed) => seed.filter(([x]) => x >= from).map(([, y]) => y)),
  ]);

function kept(series: Series[], from: number, log: boolean): number[] {
  const limit = log ? Infinity : ceiling(series);
  return values(series, from).filter((value) => value <= limit);
}

export const leavesPlot = (series: Series[], log: boolean): boolean =>
  !log && values(series).some((value) => value > ceiling(series));

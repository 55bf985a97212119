// What every candidate came to as it learned: the mean of its seeds, and how far they spread.
import { short } from "../axis";
import { button, select } from "../dom";
import { curve, type Group, steps } from "./groups";
import { fixed, meant, told } from "./numbers";
import type { Reading } from "./page";
import { type Mark, type Picture, reach, type Series } from "./plot";
import { type Shown, shown, standing } from "./plot_section";
import { BANDS } from "./state";

const BAND = {
  range: ["least to largest", "the band goes from the least seed to the largest"],
  spread: ["± standard deviation", "the band is one standard deviation to each side"],
  seeds: ["every seed", "each seed is a faint line"],
} as const;

export function curves(page: Reading): Shown | undefined {
  const { comparison } = page;
  if (!page.groups.some((group) => curve(group).length > 1)) return undefined;
  const measured = comparison.trials.flatMap(({ result }) => Object.keys(result?.validation ?? {}).slice(0, 1))[0] ?? comparison.metric; // prettier-ignore
  const words = `validation ${measured}`;
  const way = measured === comparison.metric ? `, ${comparison.better} is better` : ""; // of another number, nothing is known
  const several = comparison.seeds.length > 1;

  const series = (): Series[] => page.drawn().map((group) => line(group, page, words));
  const picture = (): Picture => {
    const found = series();
    const marks = found.flatMap(({ marks }) => marks);
    const last = Math.max(...marks.map(({ x }) => x), 1);
    const from = page.state.end ? last / 2 : Math.min(...marks.map(({ x }) => x), last);
    const log = page.state.log && marks.every(({ y }) => (y ?? 0) > 0);
    return {
      kind: "lines",
      band: page.state.band !== "seeds",
      series: found.map((one) => ({ ...one, marks: one.marks.filter(({ x }) => x >= from), seeds: one.seeds?.map((seed) => seed.filter(([x]) => x >= from)) })), // prettier-ignore
      x: { title: "steps of training", range: [from, last], text: short },
      y: { title: `${words}${way}`, log, range: reach(kept(found, from, log), log, 0.05) },
    };
  };
  return shown(page, {
    id: "curves",
    title: "As it learned",
    about: () =>
      several
        ? `Mean of the seeds of each candidate on the validation part; ${BAND[page.state.band][1]}.`
        : "One seed of each candidate on the validation part; no spread is known.",
    picture,
    choices: () => [
      several && select("Band", BANDS.map((name) => ({ name, title: BAND[name][0] })), page.state.band, (name) => page.set({ band: BANDS.find((one) => one === name)! })), // prettier-ignore
      button("The end", "Only the second half of training", () => page.set({ end: !page.state.end }), { "aria-pressed": String(page.state.end), "data-key": "end" }), // prettier-ignore
      button("Logarithmic", `${words} on a logarithmic axis`, () => page.set({ log: !page.state.log }), { "aria-pressed": String(page.state.log), "data-key": "log" }), // prettier-ignore
    ],
    notes: () => leaves(series(), page.state.log) && ["A line leaves the plot above: its numbers are far larger than all others. The logarithmic axis and the table show them."], // prettier-ignore
    read(chosen, { series }) {
      const step = series[chosen.series].marks[chosen.mark].x;
      const rows = page.drawn().flatMap((group, i) => {
        const found = curve(group).find(({ x }) => x === step);
        return found ? [{ look: group.index, name: group.candidate.name, text: meant(found.value, page.places), sort: found.value.mean, lit: i === chosen.series }] : []; // prettier-ignore
      });
      return standing(`after step ${step.toLocaleString("en")}`, rows, comparison.better === "more");
    },
    table() {
      const all = page.drawn().map((group) => ({ group, found: new Map(curve(group).map(({ x, value }) => [x, value])) }));
      const places = [...new Set(all.flatMap(({ found }) => [...found.keys()]))].sort((a, b) => a - b);
      return {
        heads: ["step", ...all.map(({ group }) => group.candidate.name)],
        rows: places.map((step) => [
          step.toLocaleString("en"),
          ...all.map(({ found }) => (found.has(step) ? meant(found.get(step)!, page.places) : "–")),
        ]),
      };
    },
  });
}

function line(group: Group, page: Reading, words: string): Series {
  const { name } = group.candidate;
  const marks = curve(group).map(({ x, value }): Mark => {
    const band = value.sd === undefined ? {} : page.state.band === "spread" ? { low: value.mean - value.sd, high: value.mean + value.sd } : { low: value.low, high: value.high }; // prettier-ignore
    return { x, y: value.mean, said: `${name}, step ${x}: ${words} ${told(value, page.places)}`, ...band };
  });
  const every = page.state.band === "seeds" && group.trials.length > 1;
  const seeds = every ? group.trials.map((trial) => steps(trial).filter((pair): pair is [number, number] => pair[1] !== null)) : undefined; // prettier-ignore
  const last = marks.at(-1)?.y;
  return {
    look: group.index,
    name: group.label,
    ends: last == null ? undefined : fixed(last, Math.min(page.places, 3)),
    marks,
    seeds,
  };
}

/** A run that diverges would leave nothing to see of the others: an axis ends at twice the median of what the lines reach. */
const ceiling = (series: Series[]): number => {
  const tops = series.map(({ marks }) => Math.max(...marks.map(({ y }) => y ?? -Infinity))).filter(Number.isFinite).sort((a, b) => a - b); // prettier-ignore
  const middle = tops[(tops.length - 1) >> 1] ?? 0;
  return middle > 0 ? 2 * middle : Infinity;
};

const values = (series: Series[], from = -Infinity): number[] =>
  series.flatMap(({ marks, seeds }) => [
    ...marks.filter(({ x }) => x >= from).flatMap(({ y, low, high }) => [y ?? NaN, low ?? NaN, high ?? NaN]),
    ...(seeds ?? []).flatMap((seed) => seed.filter(([x]) => x >= from).map(([, y]) => y)),
  ]);

function kept(series: Series[], from: number, log: boolean): number[] {
  const limit = log ? Infinity : ceiling(series);
  return values(series, from).filter((value) => value <= limit);
}

export const leaves = (series: Series[], log: boolean): boolean => !log && values(series).some((value) => value > ceiling(series));

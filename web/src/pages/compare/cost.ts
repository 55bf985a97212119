// Quality against cost.
import { keyOf } from "../../charts/markers";
import { wantsLog } from "../../charts/scale";
import { type Section, section } from "../../charts/section";
import type { Mark, Picture } from "../../charts/series";
import { h, select } from "../../core/dom";
import { clock, short } from "../../core/format";
import type { Trial } from "../../core/contract";
import { type Group, type Spread, spread } from "./groups";
import { bytes, count, withSpread, time, rangeText } from "./numbers";
import type { ComparePage } from "./page";
import { HINT, toggles } from "./legend";
import { type CompareState, COSTS } from "./state";

type Cost = NonNullable<CompareState["cost"]>;

const NAMES: Record<Cost, string> = {
  seconds: "training time",
  multiply_adds: "multiply-adds per step",
  parameters: "parameters",
  memory: "peak memory",
  tokens: "tokens per second",
};
const TEXT: Record<Cost, (value: number) => string> = {
  seconds: time,
  multiply_adds: count,
  parameters: (value) => Math.round(value).toLocaleString("en"),
  memory: bytes,
  tokens: (value) => Math.round(value).toLocaleString("en"),
};
const TICK: Record<Cost, (value: number) => string> = { ...TEXT, seconds: clock, parameters: short, tokens: short };

/** The cost of one run: its own measurement, or that of its candidate. */
const of = (cost: Cost, { candidate }: Group, trial: Trial): number | undefined =>
  (cost === "parameters" || cost === "multiply_adds" ? candidate[cost] : trial[cost]) || undefined;

export function cost(page: ComparePage): Section | undefined {
  const { comparison } = page;
  const finished = ({ trials }: Group) => trials.filter(({ value }) => value != null);
  const known = COSTS.filter((one) => page.groups.some((group) => finished(group).some((trial) => of(one, group, trial) !== undefined))); // prettier-ignore
  if (!known.length) return undefined;
  const chosenCost = (): Cost => (page.state.cost && known.includes(page.state.cost) ? page.state.cost : known[0]);
  const words = `${comparison.part} ${comparison.metric}`;
  const costs = (group: Group): Spread | undefined => spread(finished(group).map((trial) => of(chosenCost(), group, trial)));

  const marks = (group: Group): Mark[] => {
    const [across, { value }, name] = [costs(group), group, group.candidate.name];
    if (!across || !value) return [];
    const text = TEXT[chosenCost()];
    const around = value.sd === undefined ? {} : { low: value.low, high: value.high, left: across.low, right: across.high };
    const mean: Mark = { x: across.median, y: value.mean, sentence: `${name}: ${words} ${rangeText(value, page.decimals)}; ${NAMES[chosenCost()]} ${text(across.median)}`, ...around }; // prettier-ignore
    if (group.trials.length < 2) return [mean];
    const seeds = finished(group).flatMap((trial): Mark[] => {
      const x = of(chosenCost(), group, trial);
      return x === undefined ? [] : [{ x, y: trial.value!, small: true, sentence: `${name}, seed ${trial.seed}: ${words} ${rangeText(spread([trial.value])!, page.decimals).replace(", one seed", "")}; ${NAMES[chosenCost()]} ${text(x)}` }]; // prettier-ignore
    });
    return [mean, ...seeds];
  };
  const picture = (): Picture => {
    const series = page
      .drawn()
      .map((group) => ({ look: group.index, name: group.label, marks: marks(group), signs: "all" as const }));
    const xs = series.flatMap(({ marks }) => marks.map(({ x }) => x));
    const brief = chosenCost() === "seconds" && Math.max(...xs) < 100; // else ticks of half a second would be the same
    return {
      names: "beside",
      series,
      x: {
        title: `${NAMES[chosenCost()]}${brief ? ", in seconds" : ""}`,
        log: xs.length > 0 && wantsLog(xs),
        air: 0.09,
        text: brief ? undefined : TICK[chosenCost()],
      },
      y: { title: `${words}, ${comparison.better} is better` },
    };
  };
  return section({
    id: "cost",
    file: `${page.file}-cost`,
    title: "Quality against cost",
    hint: HINT,
    legend: () => toggles(page),
    caption: () => `Large markers: mean at the median cost. Small markers: seeds. Crosses: range over seeds. Cost: ${NAMES[chosenCost()]}.`, // prettier-ignore
    picture,
    choices: () => [
      known.length > 1 && select("Cost", known.map((name) => ({ name, title: NAMES[name] })), chosenCost(), (name) => page.set({ cost: known.find((one) => one === name) })), // prettier-ignore
    ],
    read(chosen, { series }) {
      const group = page.drawn()[chosen.series];
      const { x, small } = series[chosen.series].marks[chosen.mark];
      const trial = small ? finished(group).find((one) => of(chosenCost(), group, one) === x && one.value === series[chosen.series].marks[chosen.mark].y) : undefined; // prettier-ignore
      const value = trial ? spread([trial.value])! : group.value!;
      const line = h("p.place", keyOf(group.index), h("b", group.candidate.name), trial ? `, seed ${trial.seed}` : "");
      const facts = known.flatMap((name): [string, string][] => {
        const found = trial ? of(name, group, trial) : spread(finished(group).map((one) => of(name, group, one)))?.mean;
        return found === undefined ? [] : [[NAMES[name], TEXT[name](found)]];
      });
      return [line, h("dl.facts", [[words, withSpread(value, page.decimals)], ...facts].map(([name, text]) => h("div", h("dt", name), h("dd", text))))]; // prettier-ignore
    },
    table: () => ({
      heads: ["candidate", words, ...known.map((name) => NAMES[name])],
      rows: page.drawn().map((group) => [
        group.candidate.name,
        group.value ? withSpread(group.value, page.decimals) : "–",
        ...known.map((name) => {
          const found = spread(group.trials.map((trial) => of(name, group, trial)));
          return found ? TEXT[name](found.mean) : "–";
        }),
      ]),
    }),
  });
}

// Extrapolation: inputs larger than those of training; which candidates generalise, and which do not support them.
import { wantsLog } from "../../charts/scale";
import { type Section, section } from "../../charts/section";
import type { Mark, Picture } from "../../charts/series";
import { button } from "../../core/dom";
import { extrapolated, type Group, unsupported, sizes } from "./groups";
import { fixed, withSpread, rangeText } from "./numbers";
import type { ComparePage } from "./page";
import { HINT, ranking, toggles } from "./legend";

export function extrapolation(page: ComparePage): Section | undefined {
  const { comparison } = page;
  const tried = sizes(comparison);
  if (!tried.length) return undefined;
  const words = `${comparison.part} ${comparison.metric}`;
  const named = (factor: number) => {
    const size = tried.find((one) => one.factor === factor)?.size;
    return `${times(factor)}${size ? ` (${size.toLocaleString("en")}${comparison.axis ? ` ${comparison.axis}` : ""})` : ""}`;
  };
  const numbers = () => page.drawn().flatMap((group) => extrapolated(group).map(({ value }) => value.mean));
  const log = () => page.state.far && numbers().every((value) => value > 0);

  const marks = (group: Group): Mark[] => [
    ...extrapolated(group).map(({ x, value }) => ({ x, y: value.mean, sentence: `${group.candidate.name} at ${named(x)}: ${words} ${rangeText(value, page.decimals)}`, ...(value.sd === undefined ? {} : { low: value.low, high: value.high }) })), // prettier-ignore
    ...unsupported(group).map(({ factor, reason }) => ({ x: factor, y: null, sentence: `${group.candidate.name} at ${named(factor)}: not supported. ${reason ?? ""}` })), // prettier-ignore
  ].sort((a, b) => a.x - b.x); // prettier-ignore
  const last = (group: Group): string | undefined => {
    const found = extrapolated(group).at(-1);
    return found && fixed(found.value.mean, Math.min(page.decimals, 3));
  };
  const picture = (): Picture => ({
    names: "ends",
    series: page.drawn().map((group) => ({ look: group.index, name: group.label, ends: last(group), marks: marks(group), line: "marks", band: true, signs: "few" })), // prettier-ignore
    x: { title: `multiple of the training size${comparison.axis ? `: ${comparison.axis}` : ""}`, log: true, air: 0.04, ticks: tried.map(({ factor }) => factor), text: times }, // prettier-ignore
    y: { title: `${words}, ${comparison.better} is better`, log: log() },
  });
  /** Candidates that do not support other sizes, grouped by reason. */
  const refusing = (): string[] => {
    const found = new Map<string, string[]>();
    for (const group of page.drawn()) {
      const [first] = unsupported(group);
      if (first)
        found.set(first.reason ?? "", [...(found.get(first.reason ?? "") ?? []), `${group.label} from ${times(first.factor)}`]);
    }
    return [...found].map(([reason, who]) => `Not supported: ${who.join("; ")}.${reason ? ` ${reason}` : ""}`);
  };
  return section({
    id: "extrapolation",
    file: `${page.file}-extrapolation`,
    title: "Extrapolation beyond the training size",
    hint: HINT,
    legend: () => toggles(page),
    caption: () => `Trained at 1×, evaluated up to ${named(tried.at(-1)!.factor)}. Lines: mean over seeds. Bands: range over seeds.`, // prettier-ignore
    picture,
    choices: () => [
      button("Logarithmic", `${words} on a logarithmic axis`, () => page.set({ far: !page.state.far }), { "aria-pressed": String(page.state.far), "data-key": "far" }), // prettier-ignore
    ],
    notes() {
      const steep = !page.state.far && numbers().length > 0 && wantsLog(numbers());
      return [...refusing(), ...(steep ? ["The numbers span several orders of magnitude: use the logarithmic axis."] : [])];
    },
    read(chosen, { series }) {
      const { x } = series[chosen.series].marks[chosen.mark];
      const worst = comparison.better === "less" ? Infinity : -Infinity;
      const rows = page.drawn().flatMap((group, i) => {
        const found = extrapolated(group).find((one) => one.x === x)?.value;
        const no = unsupported(group).find(({ factor }) => factor === x);
        if (!found && !no) return [];
        return [{ look: group.index, name: group.candidate.name, text: found ? withSpread(found, page.decimals) : "not supported", sort: found?.mean ?? worst, lit: i === chosen.series }]; // prettier-ignore
      });
      return ranking(`at ${named(x)}`, rows, comparison.better === "more");
    },
    table: () => ({
      heads: ["candidate", ...tried.map(({ factor }) => named(factor))],
      rows: page.drawn().map((group) => [
        group.candidate.name,
        ...tried.map(({ factor }) => {
          const found = extrapolated(group).find(({ x }) => x === factor);
          return found
            ? withSpread(found.value, page.decimals)
            : unsupported(group).some((one) => one.factor === factor)
              ? "not supported"
              : "–";
        }),
      ]),
    }),
  });
}

const times = (factor: number): string => `${Number(factor.toPrecision(4))}×`;

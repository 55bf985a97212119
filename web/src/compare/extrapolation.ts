// Inputs of another size than those of training: who holds, who gets worse, who cannot read them at all.
import { button } from "../dom";
import { beyond, type Group, refused, sizes } from "./groups";
import { fixed, meant, told } from "./numbers";
import type { Reading } from "./page";
import { bent, type Mark, type Picture } from "./plot";
import { type Shown, shown, standing } from "./plot_section";

export function extrapolation(page: Reading): Shown | undefined {
  const { comparison } = page;
  const tried = sizes(comparison);
  if (!tried.length) return undefined;
  const words = `${comparison.part} ${comparison.metric}`;
  const named = (factor: number) => {
    const size = tried.find((one) => one.factor === factor)?.size;
    return `${times(factor)}${size ? ` (${size.toLocaleString("en")}${comparison.axis ? ` ${comparison.axis}` : ""})` : ""}`;
  };
  const numbers = () => page.drawn().flatMap((group) => beyond(group).map(({ value }) => value.mean));
  const log = () => page.state.far && numbers().every((value) => value > 0);

  const marks = (group: Group): Mark[] => [
    ...beyond(group).map(({ x, value }) => ({ x, y: value.mean, said: `${group.candidate.name} at ${named(x)}: ${words} ${told(value, page.places)}`, ...(value.sd === undefined ? {} : { low: value.low, high: value.high }) })), // prettier-ignore
    ...refused(group).map(({ factor, reason }) => ({ x: factor, y: null, said: `${group.candidate.name} at ${named(factor)}: cannot read such inputs. ${reason ?? ""}` })), // prettier-ignore
  ].sort((a, b) => a.x - b.x); // prettier-ignore
  const last = (group: Group): string | undefined => {
    const found = beyond(group).at(-1);
    return found && fixed(found.value.mean, Math.min(page.places, 3));
  };
  const picture = (): Picture => ({
    kind: "lines",
    band: true,
    series: page.drawn().map((group) => ({ look: group.index, name: group.label, ends: last(group), marks: marks(group) })),
    x: { title: `times the size of training${comparison.axis ? `: ${comparison.axis}` : ""}`, log: true, ticks: tried.map(({ factor }) => factor), text: times }, // prettier-ignore
    y: { title: `${words}, ${comparison.better} is better`, log: log() },
  });
  /** Who cannot read other sizes, those with one reason together. */
  const refusing = (): string[] => {
    const found = new Map<string, string[]>();
    for (const group of page.drawn()) {
      const [first] = refused(group);
      if (first)
        found.set(first.reason ?? "", [...(found.get(first.reason ?? "") ?? []), `${group.label} from ${times(first.factor)}`]);
    }
    return [...found].map(([reason, who]) => `Cannot read such inputs: ${who.join("; ")}.${reason ? ` ${reason}` : ""}`);
  };
  return shown(page, {
    id: "beyond",
    title: "Beyond the size of training",
    about: () => `Trained at 1×, tried up to ${named(tried.at(-1)!.factor)}. Mean of the seeds; the band goes from the least to the largest.`, // prettier-ignore
    picture,
    choices: () => [
      button("Logarithmic", `${words} on a logarithmic axis`, () => page.set({ far: !page.state.far }), { "aria-pressed": String(page.state.far), "data-key": "far" }), // prettier-ignore
    ],
    notes() {
      const steep = !page.state.far && numbers().length > 0 && bent(numbers());
      return [...refusing(), ...(steep ? ["The numbers lie far apart: a logarithmic axis shows them better."] : [])];
    },
    read(chosen, { series }) {
      const { x } = series[chosen.series].marks[chosen.mark];
      const worst = comparison.better === "less" ? Infinity : -Infinity;
      const rows = page.drawn().flatMap((group, i) => {
        const found = beyond(group).find((one) => one.x === x)?.value;
        const no = refused(group).find(({ factor }) => factor === x);
        if (!found && !no) return [];
        return [{ look: group.index, name: group.candidate.name, text: found ? meant(found, page.places) : "cannot read", sort: found?.mean ?? worst, lit: i === chosen.series }]; // prettier-ignore
      });
      return standing(`at ${named(x)}`, rows, comparison.better === "more");
    },
    table: () => ({
      heads: ["candidate", ...tried.map(({ factor }) => named(factor))],
      rows: page.drawn().map((group) => [
        group.candidate.name,
        ...tried.map(({ factor }) => {
          const found = beyond(group).find(({ x }) => x === factor);
          return found
            ? meant(found.value, page.places)
            : refused(group).some((one) => one.factor === factor)
              ? "cannot read"
              : "–";
        }),
      ]),
    }),
  });
}

const times = (factor: number): string => `${Number(factor.toPrecision(4))}×`;

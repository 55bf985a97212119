// Pairwise differences: the difference of two candidates, its confidence interval, its p-value, and the verdict of the record.
import { above, percent, rules, upright } from "../../charts/column";
import { type Scale, scale } from "../../charts/scale";
import type { PairedDifference } from "../../core/contract";
import { button, h, svg } from "../../core/dom";
import { labelled } from "./candidates";
import type { Group } from "./groups";
import { colour, marker, keyOf } from "../../charts/markers";
import { signed } from "./numbers";
import type { ComparePage } from "./page";

const [HEIGHT, AT_ONCE] = [30, 12]; // pixels; pairs that are shown at first
const LEVEL = 0.05; // a p-value is never rounded across it

export function pairs(page: ComparePage): HTMLElement | undefined {
  const found = page.comparison.pairs ?? [];
  if (!found.length) return undefined;
  const { metric, better, smallest_effect: limit } = page.comparison;
  const spread = scale(paddedRange(found, limit ?? 0), [4, 96], 4);
  const body = h("tbody", { role: "rowgroup" });
  const [least, most] = better === "less" ? ["the first is better", "the second is better"] : ["the second is better", "the first is better"]; // prettier-ignore
  const head = (...rest: Parameters<typeof h>[1][]) => h("th", { scope: "col", role: "columnheader" }, ...rest);
  const all = button(`All ${found.length} pairs`, "Show every pair", () => show(found.length), { class: "all" });
  const show = (count: number) => {
    body.replaceChildren(...found.slice(0, count).map((pair) => row(pair, page, spread)));
    all.hidden = count >= found.length;
  };
  const few = () => show(Math.min(found.length, AT_ONCE));
  few();
  addEventListener("beforeprint", () => show(found.length));
  return h(
    "section.part.pairs",
    { "data-part": "pairs" },
    h("h2", "Pairwise differences"),
    h("p.quiet.about", `Difference of ${metric} between two candidates on the same seeds, the first minus the second. The line is the 95 % confidence interval, adjusted for all pairs. p is that of a paired t-test after Holm’s correction. ${rule(limit)}`), // prettier-ignore
    matrix(page, found),
    h(
      "table.differences",
      { role: "table" },
      h("caption.spoken", "Pairs of candidates"),
      h(
        "thead",
        { role: "rowgroup" },
        h(
          "tr",
          { role: "row" },
          head("pair"),
          head("difference"),
          h("th.plotted", { scope: "col", role: "columnheader" }, h("span.spoken", "drawn"), h("span.ways", { "aria-hidden": "true" }, h("span", `← ${least}`), h("span", `${most} →`)), above(spread)), // prettier-ignore
          head("95 % interval"),
          head("p"),
          head("verdict"),
        ),
      ),
      body,
    ),
    all,
  );
}

/** How a verdict follows from the interval. */
const rule = (limit?: number | null): string =>
  limit
    ? `The verdict can be read off the interval: equivalent if it lies within ±${limit}, the smallest effect that matters (p is then that of two one-sided tests after Bonferroni’s correction); else different if it excludes 0; else undecided.`
    : "The verdict can be read off the interval: different if it excludes 0, else undecided. No smallest effect was fixed, so no pair is called equivalent.";

/** The range of the axis. A very wide interval leaves it, with an arrow, so that the others stay readable. */
export function paddedRange(pairs: PairedDifference[], smallest = 0): [number, number] {
  const ends = pairs.map(({ difference, low, high }) => Math.max(Math.abs(difference), Math.abs(low ?? 0), Math.abs(high ?? 0))).sort((a, b) => a - b); // prettier-ignore
  const apart = Math.max(...pairs.map(({ difference }) => Math.abs(difference)));
  const limit = Math.max(Math.min(ends.at(-1)!, Math.max(1.15 * apart, 2 * ends[ends.length >> 1])), 1.1 * smallest) || 1;
  return [-1.05 * limit, 1.05 * limit];
}

/** The verdict on a pair in words. */
export function verdictOf({ verdict, better, low, p, seeds }: PairedDifference): string {
  if (verdict === "different") return `${better} is better`;
  if (verdict !== "undecided") return verdict;
  if (low == null || p == null) return "undecided: no spread to test it with";
  return seeds ? `undecided; a new comparison needs about ${seeds.toLocaleString("en")} seeds` : "undecided; a new comparison needs more than 128 seeds"; // prettier-ignore
}

/** The p-value of the verdict: of equivalence for an equivalent pair, else of no difference. */
export function pOf({ verdict, p, p_equivalent }: PairedDifference): string {
  const value = verdict === "equivalent" ? p_equivalent : p;
  if (value == null) return "–";
  if (value < 1e-4) return "< 0.0001";
  const text = [2, 3, 4, 6].map((digits) => Number(value.toPrecision(digits))).find((one) => one < LEVEL === value < LEVEL);
  return String(text ?? value);
}

function row(pair: PairedDifference, page: ComparePage, scale: Scale): HTMLElement {
  const cell = (kind: string, ...rest: Parameters<typeof h>[1][]) => h(`td.${kind}`, { role: "cell" }, ...rest);
  const write = (value: number) => signed(value, page.decimals);
  const interval = pair.low == null || pair.high == null ? "–" : `${write(pair.low)} to ${write(pair.high)}`;
  return h(
    "tr",
    { role: "row", "data-outcome": pair.verdict },
    h("th", { scope: "row", role: "rowheader" }, who(pair.first, page), h("span.spoken", " and "), who(pair.second, page)),
    cell("value", write(pair.difference)),
    cell("plotted", drawn(pair, page, scale)),
    cell("interval", interval),
    cell("p", pOf(pair)),
    cell("summary", verdictOf(pair)),
  );
}

const named = (name: string, { groups }: ComparePage): Group | undefined => groups.find(({ candidate }) => candidate.name === name);

function who(name: string, page: ComparePage): HTMLElement {
  const index = named(name, page)?.index ?? 0;
  return h("span.who", { "data-look": colour(index) }, keyOf(index), h("span", name));
}

function drawn(pair: PairedDifference, page: ComparePage, scale: Scale): SVGElement {
  const middle = HEIGHT / 2;
  const winner = pair.better ? named(pair.better, page)?.index : undefined;
  const limit = page.comparison.smallest_effect ?? 0;
  const place = (value: number) => Math.min(Math.max(scale.place(value), 1), 99);
  const arrow = (at: number, way: number) => svg("svg", { x: percent(at), y: middle, overflow: "visible" }, svg("path.arrow", { d: `M${-4 * way}-4L${2 * way} 0L${-4 * way} 4` })); // prettier-ignore
  const { low, high } = pair;
  return svg(
    "svg.strip",
    { width: "100%", height: HEIGHT, "aria-hidden": "true", ...(winner === undefined ? {} : { "data-look": colour(winner) }) },
    limit > 0 && svg("rect.limit", { x: percent(scale.place(-limit)), width: percent(scale.place(limit) - scale.place(-limit)), y: 0, height: HEIGHT }), // prettier-ignore
    rules(scale),
    upright("line.zero", scale, 0, 0, HEIGHT),
    low != null && high != null && [
      svg("line.interval", { x1: percent(place(low)), x2: percent(place(high)), y1: middle, y2: middle }),
      scale.place(low) < 1 && arrow(1, -1),
      scale.place(high) > 99 && arrow(99, 1),
    ].filter((part) => part !== false), // prettier-ignore
    svg("svg.seed", { x: percent(place(pair.difference)), y: middle, overflow: "visible" }, winner === undefined ? svg("circle.open", { r: 4.5 }) : marker(winner, 0, 0, 5)), // prettier-ignore
  );
}

const SIGNS = {
  better: ["▲", "better"],
  worse: ["▽", "worse"],
  equivalent: ["≈", "equivalent"],
  identical: ["=", "identical"],
  undecided: ["·", "undecided"],
} as const;

/** The results of all pairs as a matrix: row against column. */
function matrix(page: ComparePage, found: PairedDifference[]): HTMLElement | undefined {
  const { groups } = page;
  if (groups.length < 3) return undefined;
  const of = new Map(found.flatMap((pair) => [[JSON.stringify([pair.first, pair.second]), pair], [JSON.stringify([pair.second, pair.first]), pair]])); // prettier-ignore
  const kind = ({ verdict, better }: PairedDifference, name: string) =>
    verdict === "different" ? (better === name ? "better" : "worse") : verdict;
  const cell = (a: string, b: string) => {
    const pair = a === b ? undefined : of.get(JSON.stringify([a, b]));
    if (!pair) return h("td", { "data-kind": "empty" }, h("span.spoken", a === b ? "itself" : "no seed in common"));
    const [sign, word] = SIGNS[kind(pair, a)];
    return h("td", { "data-kind": kind(pair, a), title: `${a} against ${b}: ${word}` }, h("span", { "aria-hidden": "true" }, sign), h("span.spoken", word)); // prettier-ignore
  };
  const names = groups.map(({ candidate }) => candidate.name);
  const words = Object.values(SIGNS).map(([sign, word]) => h("span", h("b", { "aria-hidden": "true" }, sign), ` ${word}`));
  return h(
    "div.against",
    h("p.quiet", "Row against column: ", words),
    h(
      "div.scroll",
      { tabindex: 0, role: "region", "aria-label": "Pairwise results" },
      h(
        "table",
        h("caption.spoken", "Pairwise results: row against column"),
        h("thead", h("tr", h("td"), groups.map(({ index, candidate }) => h("th", { scope: "col", "data-look": colour(index), title: candidate.name }, keyOf(index), h("span.spoken", candidate.name))))), // prettier-ignore
        h("tbody", groups.map((group) => h("tr", h("th", { scope: "row" }, labelled(group)), names.map((other) => cell(group.candidate.name, other))))), // prettier-ignore
      ),
    ),
  );
}

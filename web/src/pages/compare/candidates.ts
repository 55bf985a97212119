// The candidates, best first: the result of every seed, and the cost. For a screen reader it stays a table, also where a narrow window
// lays out its rows as cards.
import type { Trial } from "../../core/contract";
import { h } from "../../core/dom";
import { flat, table, written } from "../../core/tables";
import { type Group, type Spread, spread, unfinished } from "./groups";
import { above } from "../../charts/column";
import { colour, keyOf } from "../../charts/markers";
import { bytes, fixed, withSpread, time } from "./numbers";
import type { ComparePage } from "./page";
import { sharedScale, strip, stripText } from "./strip";

const whole = (value: number): string => Math.round(value).toLocaleString("en");

interface Column {
  title: string;
  text(group: Group): string | undefined; // undefined where it is unknown
}

const median = (found: Spread | undefined, text: (value: number) => string) => (found?.median ? text(found.median) : undefined);
const COSTS: Column[] = [
  { title: "parameters", text: ({ candidate }) => (candidate.parameters ? whole(candidate.parameters) : undefined) },
  { title: "steps", text: ({ candidate }) => (candidate.steps ? whole(candidate.steps) : undefined) },
  { title: "training", text: ({ trials }) => median(spread(trials.map(({ seconds }) => seconds)), time) },
  { title: "tokens/s", text: ({ trials }) => median(spread(trials.map(({ tokens }) => tokens)), whole) },
  { title: "memory", text: ({ trials }) => median(spread(trials.map(({ memory }) => memory)), bytes) },
];

export function candidates(page: ComparePage): HTMLElement {
  const { comparison, groups, decimals } = page;
  const scale = sharedScale(groups);
  const columns = COSTS.filter(({ text }) => groups.some((group) => text(group) !== undefined));
  const head = (...rest: Parameters<typeof h>[1][]) => h("th", { scope: "col", role: "columnheader" }, ...rest);
  const words = `${comparison.part} ${comparison.metric}`;
  const several = groups.some(({ value }) => (value?.count ?? 0) > 1);
  const known = groups.some(({ value }) => value);
  return h(
    "section.part.candidates",
    { "data-part": "candidates" },
    h("h2", "Candidates, best first"),
    h("p.quiet.about", `${words}, ${comparison.better} is better. `, several ? "± is the standard deviation over seeds. Markers: seeds. Line: mean. Band: ± one standard deviation. Time, tokens per second and memory are medians." : known ? "One seed each: there is no spread, and no difference can be tested." : "No run has a result."), // prettier-ignore
    groups.length > 0 &&
      h(
        "table.standing",
        { role: "table", "data-costs": columns.length },
        h("caption.spoken", "Candidates, best first"),
        h(
          "thead",
          { role: "rowgroup" },
          h(
            "tr",
            { role: "row" },
            head("candidate"),
            head(comparison.metric),
            h("th.plotted", { scope: "col", role: "columnheader" }, h("span.spoken", "every seed, drawn"), known && above(scale)),
            columns.map(({ title }) => head(title)),
          ),
        ),
        h(
          "tbody",
          { role: "rowgroup" },
          groups.map((group) => {
            const cell = (kind: string, ...rest: Parameters<typeof h>[1][]) => h(`td.${kind}`, { role: "cell" }, ...rest);
            return h(
              "tr",
              { role: "row", "data-look": colour(group.index) },
              h("th", { scope: "row", role: "rowheader" }, h("span.who", keyOf(group.index), h("span", group.candidate.name)), changes(group), trouble(group)), // prettier-ignore
              cell("value", group.value ? withSpread(group.value, decimals) : h("span.quiet", "no result")),
              cell(
                "plotted",
                group.value
                  ? strip(
                      group,
                      scale,
                      stripText(group, (value) => fixed(value, decimals)),
                    )
                  : null,
              ),
              columns.map(({ title, text }) => cell("cost", { "data-title": title }, text(group) ?? "–")),
            );
          }),
        ),
        known && h("tfoot", { "aria-hidden": "true" }, h("tr", h("td", { colspan: 3 + columns.length }, above(scale)))), // prettier-ignore
      ),
  );
}

/** The changed fields of the recipe, where the name does not contain them. */
function changes({ candidate }: Group): HTMLElement | undefined {
  const found = flat(candidate.changes as Record<string, unknown>).filter(
    ([, value]) => !candidate.name.includes(typeof value === "string" ? value : written(value)),
  );
  return found.length ? h("span.changes", found.map(([name, value]) => h("code", `${name} = ${written(value)}`))) : undefined; // prettier-ignore
}

const STATES: Record<Trial["state"], string> = { failed: "failed", stopped: "was stopped", running: "is not finished", finished: "has no result" }; // prettier-ignore

/** Runs without a result, seeds grouped by reason. */
function trouble(group: Group): HTMLElement[] {
  const found = new Map<string, Trial[]>();
  for (const trial of unfinished(group)) {
    const key = `${trial.state} ${trial.reason ?? ""}`;
    found.set(key, [...(found.get(key) ?? []), trial]);
  }
  return [...found.values()].map((trials) => {
    const [{ state, reason }] = trials;
    const seeds = trials.map(({ seed }) => seed);
    const who = seeds.length > 1 ? `seeds ${seeds.slice(0, -1).join(", ")} and ${seeds.at(-1)}` : `seed ${seeds[0]}`;
    const verb =
      seeds.length > 1 ? STATES[state].replace("was", "were").replace("is ", "are ").replace("has", "have") : STATES[state];
    return h("span.trouble", { "data-state": state }, h("b", `${who} ${verb}`), reason ? `: ${reason}` : "");
  });
}

/** Every run with all its numbers. */
export function runs(page: ComparePage): HTMLElement {
  const { trials, part, metric } = page.comparison;
  const names = results(trials);
  const heads = ["candidate", "seed", "state", `${part} ${metric}`, ...names.map(([part, name]) => `${part} ${name}`), "training", "tokens/s", "memory", "folder"]; // prettier-ignore
  const number = (value: number | null | undefined) =>
    value == null ? "–" : String(Number(value.toPrecision(7))).replace(/^-/, "−");
  const rows = trials.map((trial) => [
    trial.candidate,
    String(trial.seed),
    trial.reason ? `${trial.state}: ${trial.reason}` : trial.state,
    number(trial.value),
    ...names.map(([part, name]) => number(trial.result?.[part]?.[name])),
    trial.seconds ? time(trial.seconds) : "–",
    trial.tokens ? whole(trial.tokens) : "–",
    trial.memory ? bytes(trial.memory) : "–",
    h("code", trial.folder),
  ]);
  return table("every run", heads, rows, { class: "numbers runs" });
}

/** Names of all numbers at the end, as (part, name). */
export function results(trials: Trial[]): [string, string][] {
  const found = new Map<string, [string, string]>();
  for (const { result } of trials)
    for (const [part, values] of Object.entries(result ?? {}))
      for (const name of Object.keys(values)) found.set(JSON.stringify([part, name]), [part, name]);
  return [...found.values()];
}

/** A candidate's legend key and its short name; the full name is the tooltip. */
export const labelled = ({ index, candidate, label }: Group): HTMLElement =>
  h("span.who", { "data-look": colour(index), title: candidate.name }, keyOf(index), h("span", label));

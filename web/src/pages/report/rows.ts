// The table: a row for each statement, which opens its evidence. For a screen reader it stays a table, also where a narrow window lays
// out its rows as cards.
import { above } from "../../charts/column";
import type { Report, Row, ReportRow } from "../../core/contract";
import { button, h } from "../../core/dom";
import { error } from "../../core/format";
import { errors } from "./errors";
import { evidence } from "./evidence";
import { errorScale } from "./scale";
import type { ReportState } from "./state";
import { typeset } from "./typeset";
import { judged, type Tone } from "../../widgets/verdict";

/** The tone of a row: what need not hold and does not is no failure. */
export const tone = (row: Row): Tone => {
  if (row.fails) return "fails";
  if (row.verdict === "holds") return "holds";
  return row.verdict === "undecided" || row.verdict === "not applicable" ? "undecided" : "not";
};

const GROUPS: [Row["kind"], string][] = [
  ["property", "Engineering properties"],
  ["action", "Symmetries"],
];
const COLUMNS = 6;

export function rows(
  report: Report,
  state: ReportState,
  toggle: (id: string) => void,
  kept: Map<string, HTMLElement>,
): HTMLElement {
  const { audit, rows: reportRows } = report;
  const shown = audit.rows.map((row, i) => ({ row, reportRow: reportRows[i] })).filter(({ row }) => row.fails || !state.only);
  const groups = GROUPS.map(([kind, title]) => ({ title, found: shown.filter(({ row }) => row.kind === kind) }));
  return h(
    "table.rows",
    { role: "table" },
    h("caption.spoken", "Statements about the model, with what was measured"),
    head(),
    groups
      .filter(({ found }) => found.length)
      .map(({ title, found }) =>
        h(
          "tbody",
          { role: "rowgroup" },
          h(
            "tr.group",
            { role: "row" },
            h("th", { scope: "rowgroup", role: "rowheader", colspan: COLUMNS }, title, above(errorScale)),
          ),
          found.flatMap((one) => lines(one.row, one.reportRow, report, state.rows.includes(one.reportRow.id), toggle, kept)),
        ),
      ),
  );
}

function head(): HTMLElement {
  const column = (text: string, ...rest: HTMLElement[]) => h("th", { scope: "col", role: "columnheader" }, h("span", text), rest);
  return h(
    "thead",
    { role: "rowgroup" },
    h(
      "tr",
      { role: "row" },
      column("statement"),
      column("claimed"),
      column("verdict"),
      h(
        "th.plotted",
        { scope: "col", role: "columnheader" },
        h("span.spoken", "errors of all samples, plotted"),
        above(errorScale),
      ),
      column("worst error"),
      column("samples"),
    ),
  );
}

/** A row, and its evidence below where it is open. */
function lines(
  row: Row,
  reportRow: ReportRow,
  report: Report,
  open: boolean,
  toggle: (id: string) => void,
  kept: Map<string, HTMLElement>,
): HTMLElement[] {
  const cell = (kind: string, ...rest: Parameters<typeof h>[1][]) => h(`td.${kind}`, { role: "cell" }, ...rest);
  const panel = `evidence-${report.rows.indexOf(reportRow)}`;
  const measured = row.error ?? null;
  const [count, bound] = split(reportRow.samples);
  const press = h("span.named", row.name);
  const line = h(
    "tr.stated",
    {
      role: "row",
      "data-row": reportRow.id,
      "data-tone": tone(row),
      onclick: (event: Event) => pressed(event) && toggle(reportRow.id),
    },
    h(
      "th",
      { scope: "row", role: "rowheader" },
      button("", open ? "Close the evidence" : "Open the evidence", () => toggle(reportRow.id), {
        class: "opener",
        "aria-expanded": String(open),
        "aria-controls": open ? panel : false,
        "aria-label": row.name,
        "data-open": reportRow.id,
      }),
      h("span.about", row.summary),
    ),
    cell("claimed", { "data-claimed": row.claimed ?? "unknown" }, claimed(row)),
    cell("judge", judged(row.verdict, tone(row)), row.fails && h("b.fails", "fails")),
    cell("plotted", errors(row, report.audit.tolerance ?? 1e-2)),
    cell("worst", measured === null ? "–" : error(measured)),
    cell("samples", h("span", count), bound && h("span.quiet", bound)),
  );
  line.querySelector("button")!.append(press);
  if (row.where) line.querySelector("th")!.append(broken(row, report.audit.model));
  if (row.verdict === "undecided" && row.note) line.querySelector("th")!.append(h("span.where.quiet", brief(row.note)));
  if (!open) return [line];
  if (!kept.has(reportRow.id)) kept.set(reportRow.id, evidence(row, reportRow, report));
  const held = h("td", { role: "cell", colspan: COLUMNS }, kept.get(reportRow.id));
  return [line, h("tr.opened", { role: "row", id: panel, "data-row": reportRow.id, "data-tone": tone(row) }, held)];
}

/** A click on the row itself, not on a control in it, nor the end of a text selection. */
function pressed(event: Event): boolean {
  return !(event.target as HTMLElement).closest("button, a") && !String(getSelection() ?? "");
}

function claimed(row: Row): HTMLElement | string {
  if (row.claimed === "yes" || row.claimed === "no") return h("span", { title: row.reason ?? "" }, row.claimed);
  return h("span", { title: "The model makes no claim" }, h("span", { "aria-hidden": "true" }, "–"), h("span.spoken", "unknown"));
}

/** "no violation in 12 samples (95 % interval: ...)" in its two parts. */
function split(text: string): [string, string] {
  const at = text.search(/: | \(/);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 2).replace(/\)$/, "")];
}

const broken = (row: Row, model: string): HTMLElement =>
  h(
    "span.where",
    row.where === model ? "breaks between the model's modules" : ["breaks in ", h("code", row.where)],
    row.cause ? `: ${typeset(row.cause)}` : "",
  );

const brief = (text: string): string => (text.length < 160 ? text : `${text.slice(0, 150)} …`);

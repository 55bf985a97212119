// The state of a report: the open rows, and whether only failures are shown.
import type { Report } from "../../core/contract";
import { field, type Field, flag, only, schema, type Schema } from "../../core/state";

export interface ReportState {
  rows: string[];
  only: boolean;
}

export function stateOf(report: Report): Schema<ReportState> {
  const failing = report.audit.rows.some(({ fails }) => fails);
  return schema<ReportState>({
    rows: rows(report),
    only: field(only(flag(), (on) => failing || !on), false), // prettier-ignore
  });
}

/** row=permute&row=shift. At first the first failing row is open; no row at all is "row=". */
const rows = ({ audit, rows: all }: Report): Field<string[], ReportState> => ({
  history: "undo",
  initial: () => all.filter((_, i) => audit.rows[i].fails).slice(0, 1).map(({ id }) => id), // prettier-ignore
  write(open, link) {
    for (const row of open.length ? open : [""]) link.append("row", row);
  },
  read: (link) =>
    link.has("row") ? [...new Set(link.getAll("row"))].filter((row) => all.some(({ id }) => id === row)) : undefined,
});

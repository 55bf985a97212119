// The state of a report: the open rows, and whether only failures are shown. It is the link to the page.
import type { Report } from "../../core/contract";

export interface ReportState {
  rows: string[];
  only: boolean;
}

/** At first the first failing row is open. */
export const initial = ({ audit, rows: reportRows }: Report): ReportState => ({
  rows: reportRows.filter((_, i) => audit.rows[i].fails).slice(0, 1).map(({ id }) => id), // prettier-ignore
  only: false,
});

/** What differs from the initial state, as a URL fragment: row=permute&row=shift&only=1. */
export function toHash(state: ReportState, report: Report): string {
  const parts = new URLSearchParams();
  if (String(state.rows) !== String(initial(report).rows))
    for (const row of state.rows.length ? state.rows : [""]) parts.append("row", row);
  if (state.only) parts.set("only", "1");
  return parts.toString();
}

/** The state that a fragment describes; unknown rows are left out. */
export function fromHash(hash: string, report: Report): ReportState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const known = report.rows.map(({ id }) => id);
  const rows = parts.getAll("row").filter((id) => known.includes(id));
  return {
    rows: parts.has("row") ? [...new Set(rows)] : initial(report).rows,
    only: parts.get("only") === "1" && report.audit.rows.some(({ fails }) => fails),
  };
}

// What an exercise of the book asks of this page.
import type { Marked } from "../../core/goals";
import type { ReportPage } from "./page";

export const goals: Record<string, (page: Pick<ReportPage, "report" | "state">) => Marked> = {
  /** A failing row is open, and no other. */
  "failing-row"({ report, state }) {
    if (!state.rows.length) return { right: false, says: "No row is open." };
    const at = report.rows.findIndex(({ id }) => state.rows.includes(id));
    const row = report.audit.rows[at];
    if (state.rows.length > 1) return { right: false, says: "Several rows are open. Close those that hold." };
    if (!row.fails) return { right: false, says: `${row.name} does not fail: ${row.verdict}.` };
    return { right: true, says: `${row.name} is ${row.verdict}${row.where ? ` in ${row.where}` : ""}.` };
  },
};

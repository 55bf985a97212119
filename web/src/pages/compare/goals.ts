// What an exercise of the book asks of this page.
import type { Marked } from "../../core/goals";
import type { ComparePage } from "./page";

export const goals: Record<string, (page: Pick<ComparePage, "comparison" | "drawn">) => Marked> = {
  /** Only two candidates are drawn, and they are equivalent. */
  "two-left"({ comparison, drawn }) {
    const names = drawn().map(({ candidate }) => candidate.name);
    if (names.length !== 2) return { right: false, says: `${names.length} candidates are drawn.` };
    const pair = (comparison.pairs ?? []).find(({ first, second }) => names.includes(first) && names.includes(second));
    const says = `${names.join(" and ")}: ${pair?.verdict ?? "not compared"}.`;
    return { right: pair?.verdict === "equivalent", says };
  },
};

// What an exercise of the book asks of this page, marked on the measured statistics.
import type { Marked } from "../../core/goals";
import type { HeadsPage } from "./page";

export const goals: Record<string, (page: Pick<HeadsPage, "first" | "state">) => Marked> = {
  /** The open head is the one with the largest mean weight on the previous token. */
  "previous-head"({ first: { layers }, state: { open } }) {
    const all = layers.flatMap(({ heads }, layer) => heads.map(({ previous }, head) => ({ layer, head, previous: previous ?? 0 })));
    const most = Math.max(...all.map(({ previous }) => previous));
    const one = all.find(({ layer, head }) => open && layer === open[0] && head === open[1]);
    if (!one) return { right: false, says: "No head is open." };
    const says = `L${one.layer}H${one.head} gives the previous token a mean weight of ${one.previous.toFixed(2)}`;
    return one.previous === most ? { right: true, says: `${says}, more than any other.` } : { right: false, says: `${says}. Another head gives it more.` }; // prettier-ignore
  },
};

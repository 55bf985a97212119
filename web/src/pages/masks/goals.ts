// What the exercises of the book ask of this page, marked on what was measured.
import type { Marked } from "../../core/goals";
import { offset, unpack } from "../../core/tensor";
import type { MasksPage } from "./page";

type Chosen = Pick<MasksPage, "record" | "state">;

export const goals: Record<string, (page: Chosen) => Marked> = {
  /** With two layers, the smallest window in which the first word has an influence on the last output. */
  "smallest-window"({ record, state: { layers, window } }) {
    if (layers !== 2) return { right: false, says: "Set the layers to 2." };
    const measured = unpack(record.influence);
    const felt = (window: number) => (window < 1 ? 0 : measured.data[offset(measured.shape, [layers - 1, window - 1, 0, 0])]);
    const [now, below] = [felt(window), felt(window - 1)];
    const [first, last] = [record.words[0], record.words.at(-1)];
    if (!now) return { right: false, says: `With a window of ${window}, “${first}” has no influence on “${last}”: exactly 0.` };
    if (below)
      return { right: false, says: `With a window of ${window}, “${first}” reaches “${last}”. So it does with ${window - 1}.` };
    return { right: true, says: `With a window of ${window}, “${first}” reaches “${last}”; with a smaller one its influence is exactly 0.` }; // prettier-ignore
  },

  /** With a window of two words, a step after which a word is evicted. */
  evicted({ record, state: { keep, step } }) {
    if (keep !== 2) return { right: false, says: "Set the window to 2 words." };
    const { evicted_positions: gone } = record.decoding[keep - 1][step];
    const words = gone.map((word) => `“${record.words[word]}”`).join(", ");
    const read = `Step ${step} reads “${record.words[step]}”`;
    return gone.length
      ? { right: true, says: `${read}. After it, ${words} is evicted.` }
      : { right: false, says: `${read}. No word is evicted after it.` };
  },
};

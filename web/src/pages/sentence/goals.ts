// The goals of exercises on this page, marked on the numbers as they are.
import { number } from "../../core/format";
import type { Goals, Marked } from "../../core/goals";
import { matrixAt } from "../../core/tensor";
import type { App } from "./app";
import { setting } from "./story";

const UNIFORM = 1e-9; // from 1/n; of a computation in float64, whose rounding is 1e-16

export const goalsOf = (app: App): Goals => ({
  "uniform-attention": () => uniformAttention(app),
});

/** Every row of A is uniform: over all words, or, under the causal mask, over those up to its own. */
function uniformAttention(app: App): Marked {
  const { state, lab } = app;
  const { program, record } = lab.run(state, state.scheme, setting(app), { rows: lab.rows(state), source: state.order, start: 0 });
  const weights = program.get(record.roles!.weights);
  const heads = weights.shape.length > 2 ? Array.from({ length: weights.shape[0] }, (_, head) => [head]) : [[]];
  let worst = { off: -1, row: 0, least: 0, most: 0 };
  for (const head of heads) {
    const { data, shape } = matrixAt(weights, head);
    const columns = shape[1];
    for (let row = 0; row < shape[0]; row++) {
      const seen = state.causal ? row + 1 : columns;
      const values = Array.from(data.slice(row * columns, row * columns + seen));
      const [least, most] = [Math.min(...values), Math.max(...values)];
      const off = Math.max(1 / seen - least, most - 1 / seen);
      if (!(off <= worst.off)) worst = { off, row, least, most }; // also where a weight is no number
    }
  }
  const word = state.words[state.order[worst.row]];
  if (worst.off <= UNIFORM)
    return { right: true, says: state.causal ? "Every row of A is uniform over the words that it may attend to." : `Every row of A is uniform: each weight is ${number(worst.most, 3)}.` }; // prettier-ignore
  return { right: false, says: `The row of “${word}” is not uniform: its weights lie between ${number(worst.least, 3)} and ${number(worst.most, 3)}.` }; // prettier-ignore
}

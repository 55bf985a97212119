// What the exercises of the book ask of this page. Each goal reads the numbers of the page, not the way in which somebody got there.
import { permute } from "../../core/actions";
import { capital, number } from "../../core/format";
import type { Goals, Marked } from "../../core/goals";
import { equivariances, relativeError } from "../../core/measure";
import { Program } from "../../core/program";
import { at, matrixAt, tensor, type Tensor } from "../../core/tensor";
import type { App } from "./app";
import type { Setting } from "./lab";
import { shiftError } from "./slide";
import { setting } from "./story";

const UNIFORM = 1e-9; // from 1/n; of a computation in float64, whose rounding is 1e-16
const SMALL = 1e-9; // between rounding (1e-15) and a real change
const no = (says: string): Marked => ({ right: false, says });
const yes = (says: string): Marked => ({ right: true, says: capital(says) });
const percent = (value: number): string => `${(100 * value).toFixed(value < 0.01 ? 2 : 0)} %`;
const identity = (app: App): number[] => app.state.order.map((_, i) => i);
const isShuffled = (app: App): boolean => app.state.order.some((row, i) => row !== i);

/** A value of the scheme's program on the words in some order, by its role; of the chosen head. */
function valueOf(app: App, role: string, order = app.state.order, edits = app.state.edits): Tensor {
  const { scheme } = app.state;
  const record = app.lab.record(scheme, setting(app));
  const state = { ...app.state, edits };
  const run = app.lab.run(state, scheme, setting(app), { rows: app.lab.rows(state, order), start: 0 }, `goal-${role}`);
  const found = run.program.get(record.roles![role]);
  return matrixAt(found, found.shape.length > 2 ? [app.state.head] : []);
}

const rowsOf = ({ shape: [rows, columns], data }: Tensor): number[][] =>
  Array.from({ length: rows }, (_, i) => [...data.subarray(i * columns, (i + 1) * columns)]);

/** Whether the words' own numbers are those of the beginning. */
const ownWords = (app: App): boolean => !Object.keys(app.state.edits.words ?? {}).length;

const GOALS: Record<string, (app: App) => Marked> = {
  // --- chapter 2 ---------------------------------------------------------------------------------------------------------
  "uniform-attention": uniformAttention,

  "hard-lookup": (app) => {
    if (!ownWords(app)) return no("The words have been changed. Leave X as it is, and change the weights.");
    const rows = rowsOf(valueOf(app, "weights"));
    const soft = rows.findIndex((row) => Math.max(...row) <= 0.99);
    if (soft < 0) return yes("each word takes the value of one word, almost alone.");
    const [word, most] = [app.state.words[app.state.order[soft]], Math.max(...rows[soft])];
    return no(`In the row of ${word} the largest weight is ${most.toFixed(2)}.`);
  },

  "value-only": (app) => {
    const now = valueOf(app, "weights");
    const before = valueOf(app, "weights", app.state.order, {});
    const first = at(valueOf(app, "mixed"), [0, 0]);
    if (relativeError(now, before) > SMALL) return no("The attention weights have changed. Put W_Q, W_K and X back.");
    if (Math.abs(first) > 0.05) return no(`The first number of Z is ${first.toFixed(2)}.`);
    return yes(`the first number of Z is ${first.toFixed(2)}, and no attention weight has changed.`);
  },

  // --- chapter 3 ---------------------------------------------------------------------------------------------------------
  "last-word": (app) => {
    if (app.state.scheme !== "none") return no("Choose “none” as the position scheme.");
    if (!app.state.causal) return no("Switch the causal mask on.");
    if (!isShuffled(app)) return no("Put the words in another order first.");
    const { order, words } = app.state;
    const last = order.length - 1;
    if (order[last] !== last) return no(`The word “${words[last]}” is no longer at the end.`);
    const [now, before] = [valueOf(app, "output"), valueOf(app, "output", identity(app))].map((x) => rowsOf(x)[last]);
    const off = relativeError(tensor([now.length], now), tensor([before.length], before));
    return off < SMALL
      ? yes(`the row of “${words[last]}” is as before, although other words have changed places.`)
      : no(`The row of “${words[last]}” has changed by ${percent(off)}.`);
  },

  "nothing-moves": (app) => {
    if (app.state.scheme !== "none" || app.state.causal) return no("Use the scheme “none” without a causal mask.");
    if (!isShuffled(app)) return no("Put the words in another order first.");
    const off = relativeError(valueOf(app, "output"), valueOf(app, "output", identity(app)));
    return off < SMALL
      ? yes("the words have changed places, and the output is the same matrix as before.")
      : no(`The output matrix has changed by ${percent(off)}: rows have moved.`);
  },

  "all-change": (app) => {
    if (!isShuffled(app)) return no("Put the words in another order first.");
    const roles = ["mean", "first", "last", "concatenation"];
    const { scheme, causal } = app.state;
    const left = [...stays(app, scheme, setting(app), roles), ...stays(app, scheme, causal ? "class-causal" : "class", ["class"])];
    return left.length
      ? no(`These do not depend on the order: ${left.map((role) => (role === "class" ? "the class token" : role)).join(", ")}.`)
      : yes("each of the five read-outs depends on the order of the words.");
  },

  // --- chapter 4 ---------------------------------------------------------------------------------------------------------
  twin: (app) => {
    const { waves, position } = app.state;
    if (waves !== "sine") return no("Choose “one sine alone, period 36”.");
    if (position === 5) return no("This is position 5 itself. Find another one.");
    const off = apart(app, waves, position, 5);
    return off < SMALL
      ? yes(`the sine at position ${position} is the sine at position 5.`)
      : no(`The sines at positions ${position} and 5 differ by ${off.toFixed(3)}.`);
  },

  "one-word": (app) => {
    if (app.state.scheme !== "sinusoidal") return no("Choose the sinusoidal scheme on the left.");
    if (app.state.causal) return no("Switch the causal mask off.");
    if (app.state.words.length < 2) return no("Write a sentence of at least two words.");
    if (!isShuffled(app)) return no("Put the words in another order first.");
    const off = relativeError(valueOf(app, "output"), valueOf(app, "output", identity(app)));
    if (off >= SMALL) return no(`This shuffle changes the output by ${percent(off)}.`);
    return new Set(app.state.words).size === 1
      ? yes("all words are the same, so no order of them differs from another.")
      : no("This shuffle changes nothing, but another one would: some words differ.");
  },

  "back-again": (app) => {
    const { waves, position } = app.state;
    if (waves !== "pair") return no("Choose “one hand: sine and cosine, period 36”.");
    if (position === 0) return no("This is position 0 itself. Find another one.");
    const off = apart(app, waves, position, 0);
    return off < SMALL
      ? yes(`the hand at position ${position} points where it points at position 0.`)
      : no(`The encodings of positions ${position} and 0 differ by ${off.toFixed(3)}.`);
  },

  // --- chapter 5 ---------------------------------------------------------------------------------------------------------
  "alibi-misses": (app) => {
    const chosen = ["scheme", "versus"].some((which) => app.state[which as "scheme" | "versus"] === "alibi");
    if (!chosen && !app.state.schemes.includes("alibi")) return no("Choose ALiBi.");
    if (app.state.causal) return no("Switch the causal mask off.");
    if (!isShuffled(app)) return no("Put the words in another order first.");
    if (new Set(app.state.words).size < app.state.words.length) return no("Use words that all differ.");
    const { broken, error } = shuffled(app, "output", "alibi");
    return broken
      ? no(`ALiBi notices this order: its output is off by ${percent(error)}.`)
      : yes("ALiBi does not notice this order.");
  },

  "index-first": (app) => {
    const [index, sinusoidal] = ["index", "sinusoidal"].map((scheme) => shiftError(app, scheme, "scores"));
    const both = `the scores have changed by ${percent(index)} under the index and by ${percent(sinusoidal)} under sinusoids.`;
    if (!["index", "sinusoidal"].every((scheme) => app.state.schemes.includes(scheme)))
      return no("Show the index beside the sinusoidal scheme.");
    return index > 10 && sinusoidal < 0.25 ? yes(both) : no(`Not yet: ${both}`);
  },

  "whole-period": (app) => {
    const scheme = "sine-cosine";
    if (!app.state.schemes.includes(scheme)) return no("Show “sine + cosine” among the schemes.");
    if (app.state.slide === 0) return no("The words are at the beginning. Move them.");
    const off = shiftError(app, scheme, "scores");
    return off < SMALL
      ? yes(`at position ${app.state.slide} every word gets the same addition as at the beginning.`)
      : no(`At position ${app.state.slide} the scores have changed by ${percent(off)}.`);
  },

  // --- chapter 8 ---------------------------------------------------------------------------------------------------------
  "first-row-stays": (app) => {
    if (app.state.scheme !== "none" || app.state.causal) return no("Use the scheme “none” without a causal mask.");
    if (!isShuffled(app)) return no("Put the words in another order first.");
    return stays(app, "none", "plain", ["first"]).length
      ? yes("the first row stays: it is the output for the same word, and to it the others are a set.")
      : no("The first row has changed: it is the output for another word.");
  },
};

/** The equivariance of a value under the order on screen. */
function shuffled(app: App, role: string, scheme = app.state.scheme): { broken: boolean; error: number } {
  const record = app.lab.record(scheme, setting(app));
  const run = app.lab.run(app.state, scheme, setting(app), { rows: app.lab.rows(app.state, identity(app)), start: 0 }, "goal");
  const [found] = equivariances(record.program, run.leaves, permute(app.state.order), [record.roles![role]]);
  return { broken: found.verdict !== "holds", error: found.error };
}

/** Read-outs that the order on screen does not change. */
function stays(app: App, scheme: string, of: Setting, roles: string[]): string[] {
  const record = app.lab.record(scheme, of);
  const run = app.lab.run(app.state, scheme, of, { rows: app.lab.rows(app.state, identity(app)), start: 0 }, "goal");
  const outputs = roles.map((role) => record.roles![role]);
  const found = equivariances(record.program, run.leaves, permute(app.state.order), outputs);
  return roles.filter((_, i) => found[i].verdict === "holds");
}

/** The largest difference of two positions' encodings in a program of the clocks. */
function apart(app: App, waves: string, one: number, other: number): number {
  const program = app.page.tour[waves];
  const leaves = new Map(program.leaves.map((leaf) => [leaf.id, app.lab.pool.get(leaf.pool ?? "") ?? app.lab.unpack(leaf)]));
  for (const leaf of program.leaves) if (leaf.kind === "coordinate") leaves.set(leaf.id, tensor([2, 1], [one, other]));
  const [a, b] = rowsOf(new Program(program, leaves).get(program.named!.encoding));
  return Math.max(...a.map((value, i) => Math.abs(value - b[i])));
}

export const goalsOf = (app: App): Goals =>
  Object.fromEntries(Object.entries(GOALS).map(([name, goal]) => [name, () => goal(app)]));

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

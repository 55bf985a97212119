// What a story is, and what several stories share.
import { permute } from "../actions";
import { type App, perState } from "../app";
import { h } from "../dom";
import { formula, symbol } from "../format";
import type { Run, Setting } from "../lab";
import { equivariance, type Measurement } from "../measure";
import { ancestors } from "../marks/graph";
import { symbolOf, value } from "../names";
import { OPERATIONS } from "../ops";
import { dependsOn } from "../program";

export interface Story {
  title: string;
  lede: string;
  build(app: App): HTMLElement;
}

export const setting = (app: App): Setting => (app.state.causal ? "causal" : "plain");

/** A scheme's program on the words as they stand, from place `start` on. */
export function running(
  app: App,
  scheme: () => string,
  start: () => number = () => 0,
  of: () => Setting = () => setting(app),
  slot = "",
): () => Run {
  return perState(app, () =>
    app.lab.run(app.state, scheme(), of(), { rows: app.lab.rows(app.state), source: app.state.order, start: start() }, slot),
  );
}

/** The order to measure with: the person's, or one word moved if they have moved none. */
export function order(app: App): number[] {
  const moved = app.state.order.some((row, i) => row !== i);
  const rows = app.state.order.map((_, i) => i);
  return moved || rows.length < 2 ? app.state.order : [...rows.slice(1), 0];
}

/** How well a value of a scheme's program keeps up with the shuffle: f(gX) against g f(X). */
export function shuffleError(app: App, scheme: string, role: string, of: Setting = setting(app), start = 0): Measurement {
  const rows = app.lab.rows(
    app.state,
    app.state.order.map((_, i) => i),
  );
  const run = app.lab.run(app.state, scheme, of, { rows, start }, "measured");
  const output = run.record.roles![role];
  return equivariance(run.record.trace, run.leaves, permute(order(app)), output);
}

/** "Q = X W_Q": a step as an equation. */
export function equation(run: Run, id: string): HTMLElement | undefined {
  const step = run.record.trace.steps.find((s) => s.id === id);
  if (!step) return undefined;
  const symbols = step.inputs.map((input) => symbolOf(value(run, input)));
  return h(
    "span.equation",
    symbol(symbolOf(step)),
    " = ",
    formula(OPERATIONS[step.op].formula(symbols, step.params ?? {}), symbols),
  );
}

/** What a scheme brings in: values made from the places alone that meet the words in the next step. */
export function additions(run: Run): string[] {
  const { trace, roles } = run.record;
  const wanted = ancestors(new Map(trace.steps.map((s) => [s.id, s])), roles!.output);
  const kinds = (id: string) => new Set([...dependsOn(trace, id)].map((leaf) => trace.leaves.find((l) => l.id === leaf)!.kind));
  const known = new Map(trace.steps.map((s) => [s.id, kinds(s.id)]));
  const ofPlaces = (id: string) => !!known.get(id)?.has("coordinate") && !known.get(id)?.has("content");
  const meeting = trace.steps
    .filter((s) => wanted.has(s.id) && known.get(s.id)!.has("content"))
    .flatMap((s) => s.inputs)
    .filter(ofPlaces);
  return [...new Set(meeting)];
}

export const section = (title: string, ...content: (Node | string | undefined | false)[]): HTMLElement =>
  h(
    "section.part",
    title ? h("h3", title) : false,
    content.map((c) => (typeof c === "string" ? h("p", c) : c)),
  );

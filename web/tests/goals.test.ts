// Exercises of chapters 6 to 11: each goal is false for the figure as it stands in the chapter, and true for the state of its answer.
import { describe, expect, test, vi } from "vitest";
import type { Comparison, Cost, CostTerm, Heads, Masks, Messages, Molecule, Report } from "../src/core/contract";
import type { Marked } from "../src/core/goals";
import { leavesOf, Program } from "../src/core/program";
import { goals as compareGoals } from "../src/pages/compare/goals";
import * as compareState from "../src/pages/compare/state";
import { goals as costGoals } from "../src/pages/cost/goals";
import type { CostPage } from "../src/pages/cost/page";
import * as costState from "../src/pages/cost/state";
import { GraphDesk } from "../src/pages/graph/desk";
import { goals as graphGoals } from "../src/pages/graph/goals";
import { goals as headsGoals } from "../src/pages/heads/goals";
import * as headsState from "../src/pages/heads/state";
import { goals as masksGoals } from "../src/pages/masks/goals";
import * as masksState from "../src/pages/masks/state";
import { goals as moleculeGoals } from "../src/pages/molecule/goals";
import { matrix, MIRROR, matmul, rotated } from "../src/pages/molecule/rotation";
import * as moleculeState from "../src/pages/molecule/state";
import { goals as reportGoals } from "../src/pages/report/goals";
import * as reportState from "../src/pages/report/state";
import { goals as watchedGoals } from "../src/pages/watched/goals";
import { WatchedDesk } from "../src/pages/watched/desk";
import { merged } from "../src/figure/messages";
import { exercises, figures } from "./book";
import { Tab } from "./tab";
import { leaf, step } from "./toy";

vi.stubGlobal("IntersectionObserver", class {}); // a desk watches what is on screen

/** What is made in a tab with this link. */
const at = <T>(link: string, make: () => T): T => {
  new Tab(link && `#${link}`);
  return make();
};
const WORDS = ["Love", "conquers", "all"];
const mark: Record<string, (state: string) => Marked> = {};
const of = <P>(goals: Record<string, (page: P) => Marked>, page: (state: string) => P) => {
  for (const [name, goal] of Object.entries(goals)) mark[name] = (state) => goal(page(state));
};

// --- masks: three words; with a window of w, a layer reaches w − 1 words back
const felt = (layers: number, window: number): number[] =>
  Array.from({ length: 5 }, (_, layer) => WORDS.map((_, word) => Number(layer <= layers && 2 - word <= (layers - layer) * (window - 1)))).flat(); // prettier-ignore
const masks = {
  words: WORDS,
  heads: 1,
  rules: [{ name: "causal" }],
  patterns: [{ name: "causal", rules: ["causal"] }],
  influence: { shape: [4, 3, 5, 3], dtype: "float64", data: [1, 2, 3, 4].flatMap((layers) => [1, 2, 3].flatMap((window) => felt(layers, window))) }, // prettier-ignore
  decoding: [1, 2, 3].map((keep) => WORDS.map((_, step) => ({ evicted_positions: step >= keep - 1 && keep < 3 ? [step - keep + 1] : [], difference: 0 }))), // prettier-ignore
} as unknown as Masks;
of(masksGoals, (state) => ({ record: masks, state: masksState.stateOf(masks).read(state) }));

// --- cost: GPT-2
const term = (coefficient: number, symbols: string): CostTerm => ({ coefficient, symbols });
const gpt2 = { B: 1, N: 1024, D: 768, H: 12, G: 12, F: 3072, L: 12, V: 50257, P: 0, T: 1024, E: 0 };
const cost: Cost = {
  title: "",
  summary: "",
  sizes: ["N", "D", "H", "G", "F", "L"].map((letter) => ({ letter, name: letter, low: 1, high: 1e6, stops: [] })),
  parts: [
    { name: "projections", group: "attention", about: "", full_pass: [term(2, "NDD"), term(2, "NDGK")], parameters: [term(2, "DD"), term(2, "DGK")] }, // prettier-ignore
    { name: "products", group: "attention", about: "", full_pass: [term(2, "NND")] },
    { name: "feed-forward", group: "feed-forward", about: "", full_pass: [term(2, "NDF")], parameters: [term(2, "DF")] },
    { name: "table", group: "ends", about: "", per_layer: false, parameters: [term(1, "VD"), term(1, "TD")] },
  ],
  memory: [{ name: "KV cache", about: "", numbers: [term(2, "BLNGK")] }],
  presets: [{ name: "gpt2", title: "GPT-2", sizes: gpt2, features: ["causal"] }],
};
of(costGoals, (state) => ({ cost, state: costState.stateOf(cost).read(state) }) as unknown as CostPage);

// --- graph: three words
const every = Array.from({ length: 9 }, (_, i) => [i % 3, Math.floor(i / 3)]);
const X = leaf("X", [[1, 0], [0, 1], [1, 1]], "content", ["token", "feature"]); // prettier-ignore
const messages = {
  words: WORDS,
  start: "complete",
  program: { leaves: [X], steps: [], outputs: [] },
  roles: { words: "X" },
  graphs: [
    { name: "complete", edges: every },
    { name: "causal", edges: every.filter(([sends, receives]) => sends <= receives) },
    { name: "chain", edges: every.filter(([sends, receives]) => Math.abs(sends - receives) <= 1) },
  ],
} as unknown as Messages;
of(graphGoals, (state) => at(state, () => new GraphDesk(messages)));

// --- molecule: the energy of the left model is the distance of two atoms, that of the right one a coordinate
const solver = { name: "E(3)", group: "E(3)", layers: 1, heads: 1, vectors: 0, start: { energy: 1 }, floors: { energy: 1e-15, each: 1e-15, forces: 1e-15 } }; // prettier-ignore
const molecule = { frame: 0, captions: [""], atoms: [1, 1], solvers: [solver, { ...solver, name: "plain", group: "none" }] } as unknown as Molecule; // prettier-ignore
of(moleculeGoals, (text) => {
  const state = moleculeState.stateOf(molecule).read(text);
  const at = Float64Array.of(0, 0, 0, 1, 0, 0);
  for (const [atom, by] of Object.entries(state.moved)) by.forEach((part, k) => (at[3 * Number(atom) + k] += part));
  const by = state.mirror ? matmul(matrix(state.rotation), MIRROR) : matrix(state.rotation);
  const answers = (at: Float64Array) => ({ energy: Math.hypot(at[3] - at[0], at[4] - at[1], at[5] - at[2]), each: Float64Array.of(0, 0), forces: at }); // prettier-ignore
  const known = { still: answers(at), now: answers(rotated(at, by)), by, degrees: 0, mirrored: state.mirror };
  return { state, known: [known, known], solver: (name: string) => molecule.solvers.findIndex((one) => one.name === name), model: (i: number) => molecule.solvers[i] } as never; // prettier-ignore
});

// --- report, comparison, heads, a watched program
const names = ["deterministic", "batch", "causal", "gradient"];
const report = { rows: names.map((id) => ({ id })), audit: { rows: names.map((name) => ({ name, verdict: name === "causal" ? "broken" : "holds", fails: name === "causal", where: "layers.2.attention" })) } } as unknown as Report; // prettier-ignore
of(reportGoals, (state) => ({ report, state: reportState.stateOf(report).read(state) }));

const candidates = ["8", "4", "2", "1"]; // best first, as the page draws them
const comparison = { candidates: candidates.map((name) => ({ name })), pairs: candidates.flatMap((first, i) => candidates.slice(i + 1).map((second) => ({ first, second, verdict: first + second === "84" ? "equivalent" : "different" }))) } as unknown as Comparison; // prettier-ignore
of(compareGoals, (state) => {
  const { without } = compareState.stateOf(4).read(state);
  return { comparison, drawn: () => comparison.candidates.filter((_, i) => !without.includes(i)).map((candidate) => ({ candidate })) } as never; // prettier-ignore
});

const heads = { layers: [{ heads: [{ previous: 0.1 }, { previous: 0.7 }] }] } as unknown as Heads;
of(headsGoals, (state) => ({ first: heads, state: headsState.stateOf([2]).read(state) }));

const watchedProgram = { leaves: [{ ...X, id: "input.0" }, leaf("W", [[1, 0], [0, 1]])], steps: [step("mean", "mean", ["input.0"]), step("Y", "matmul", ["input.0", "W"]), step("Z", "add", ["Y", "mean"])], outputs: ["Z"] }; // prettier-ignore
of(watchedGoals, (state) => at(state, () => new WatchedDesk(watchedProgram, [], 1)));

// --- the exercises
const PAGES = ["masks", "cost", "graph", "molecule", "check", "compare", "heads", "watched"];
const own = exercises.filter(({ src }) => PAGES.some((page) => src === `figures/${page}.html`));

describe("exercises", () => {
  test("every goal is an exercise of the book", () => expect(Object.keys(mark).sort()).toEqual(own.map(({ goal }) => goal).sort()));

  test.each(own)("$goal: false at first, true for the answer", ({ goal, figure, answer }) => {
    const start = figures.get(figure)!.state;
    expect(mark[goal](start)).toMatchObject({ right: false, says: expect.stringMatching(/\.$/) });
    if (goal !== "previous-head") expect(mark[goal](merged(start, answer))).toMatchObject({ right: true, says: expect.stringMatching(/\.$/) }); // prettier-ignore
  });

  test("the head is the one with the largest weight on the previous token", () => {
    expect([mark["previous-head"]("head=0.0").right, mark["previous-head"]("head=0.1").right]).toEqual([false, true]);
  });

  test("a wrong way does not count", () => {
    expect(mark["smallest-window"]("layers=2&window=3").right).toBe(false); // a larger window than needed
    expect(mark.evicted("keep=1&step=0").right).toBe(false);
    expect(mark["attention-equals-feedforward"]("N=1024&F=2048").right).toBe(false); // another model
    expect(mark["smaller-cache"]("N=256").right).toBe(false); // another text
    expect(mark["smaller-cache"]("H=3").right).toBe(false); // fewer and wider heads: the same cache
    expect(mark["one-way"]("edges=111").right).toBe(false); // nothing reaches anything
    expect(mark["failing-row"]("row=batch").right).toBe(false);
    expect(mark["two-left"]("without=2.0").right).toBe(false); // a pair that differs
    expect(mark.edited('edits={"W":{"0,0":5}}').right).toBe(false); // a weight
    expect(mark["atom-moved"]("moved=0,0.2,0,0").right).toBe(false);
  });

  test("the input reaches every row of the output", () => {
    const says = mark.edited('edits={"input.0":{"0,0":5}}').says;
    expect(says).toBe("3 of 3 rows of the output changed.");
    expect(new Program(watchedProgram, leavesOf(watchedProgram)).get("Z").shape).toEqual([3, 2]);
  });
});

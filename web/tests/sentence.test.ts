// The page of a sentence: what its link keeps, and the exercises of the book: wrong at first, right after the answer that is revealed.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Explorable } from "../src/core/contract";
import type { App } from "../src/pages/sentence/app";
import { goalsOf } from "../src/pages/sentence/goals";
import { Lab } from "../src/pages/sentence/lab";
import { stateOf } from "../src/pages/sentence/state";
import { merged } from "../src/figure/messages";
import { exercises, figures } from "./book";

const page: Explorable = JSON.parse(readFileSync(new URL("../../contract/sentence.json", import.meta.url), "utf8"));
const lab = new Lab(page);
const of = stateOf(page);
const at = (hash: string) => ({ state: of.read(hash), lab, page }) as unknown as App;

describe("the link", () => {
  test("is empty at the beginning, which compares few schemes", () => {
    expect(of.write(of.initial())).toBe("");
    expect(of.initial().schemes).toEqual(["none", "sinusoidal", "rope"]);
  });

  test.each([
    "schemes=none%2Calibi",
    "schemes=all",
    "until=mixed",
    "point=mixed%3A0%2C1",
    "story=slide&schemes=index",
    "edits=%7B%22words%22%3A%7B%220%2C0%22%3A3%7D%7D",
  ])("comes back as it was: %s", (hash) => expect(of.write(of.read(hash))).toBe(hash));

  test.each(["schemes=nothing", "schemes=", "until=never", "point=mixed", "point=mixed:0", "point=:0,0", "point=a:b,c"])(
    "without what is invalid is that of the beginning: %s",
    (hash) => expect(of.write(of.read(hash))).toBe(""),
  );

  test("lists schemes in the page's order, whatever the link's", () =>
    expect(of.read("schemes=rope,none").schemes).toEqual(["none", "rope"]));
});

const own = exercises.filter(({ src }) => src === "figures/sentence.html");

const mark = (goal: string, hash: string) => goalsOf(at(hash))[goal]();

test("every goal of the page is an exercise of the book", () =>
  expect(Object.keys(goalsOf(at(""))).sort()).toEqual(own.map(({ goal }) => goal).sort()));

describe.each(own)("$goal", ({ goal, figure, answer }) => {
  test("is not reached at first", () => expect(mark(goal, figures.get(figure)!.state).right).toBe(false));
  test("is reached by the answer", () => {
    const { right, says } = mark(goal, merged(figures.get(figure)!.state, answer));
    expect(says).toMatch(/^[A-Z].*\.$/);
    expect(right).toBe(true);
  });
});

describe("a goal is not reached", () => {
  test.each([
    ["uniform-attention", "edits=" + edit({ words: { "0,0": 0, "0,1": 0 } })],
    ["hard-lookup", "edits=" + edit({ words: { "0,0": 50 } })],
    ["last-word", "story=shuffle&order=1,0,2"],
    ["last-word", "story=shuffle&causal=true&order=2,0,1"],
    ["last-word", "story=shuffle&causal=true&scheme=rope&order=1,0,2"],
    ["nothing-moves", "story=shuffle&order=2,0,1"],
    ["all-change", "story=readouts&order=2,0,1"],
    ["all-change", "story=readouts&order=2,0,1&causal=true"],
    ["all-change", "story=readouts&order=2,1,0&scheme=alibi"],
    ["twin", "story=clocks&waves=sine&position=23"],
    ["twin", "story=clocks&position=13"],
    ["one-word", "story=positions&scheme=sinusoidal&order=2,0,1"],
    ["back-again", "story=clocks&waves=pair&position=18"],
    ["alibi-misses", "story=positions&schemes=alibi&order=1,0,2"],
    ["index-first", "story=slide&schemes=index,sinusoidal&slide=30"],
    ["whole-period", "story=slide&schemes=sine-cosine&slide=18"],
  ])("%s by %s", (goal, hash) => {
    const { right, says } = mark(goal, hash);
    expect(right).toBe(false);
    expect(says).toMatch(/^[A-Z].*\.$/);
  });
});

function edit(changes: Record<string, Record<string, number>>): string {
  return encodeURIComponent(JSON.stringify(changes));
}

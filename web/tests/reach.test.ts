// The page of reach: what its link keeps, what its record holds, and the exercises of the book.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Reach } from "../src/core/contract";
import { Effects, inWords, tokensBack } from "../src/pages/reach/effect";
import { goalsOf } from "../src/pages/reach/goals";
import type { ReachPage } from "../src/pages/reach/page";
import { level } from "../src/pages/reach/rows";
import { stateOf } from "../src/pages/reach/state";
import { merged } from "../src/figure/messages";
import { exercises, figures } from "./book";

const record: Reach = JSON.parse(readFileSync(new URL("../../src/equiscope/explore/pages/reach.json", import.meta.url), "utf8"));
const effects = new Effects(record);
const of = stateOf(record);
const at = (hash: string) => ({ record, effects, state: of.read(hash) }) as unknown as ReachPage;

describe("the link", () => {
  test.each(["weights=trained", "length=20&token=3", "timed=1024"])("comes back as it was: %s", (hash) =>
    expect(of.write(of.read(hash))).toBe(hash),
  );
  test.each(["weights=none", "token=x", "timed=17", "length=x"])("without what is invalid is that of the beginning: %s", (hash) =>
    expect(of.read(hash)).toEqual(of.initial()),
  );
  test("has no token beyond the text", () => expect(of.read("length=10&token=40").token).toBe(9));
});

describe("the record", () => {
  test("no output depends on a later token", () => {
    for (const { name } of record.networks)
      for (const weights of ["random", "trained"] as const)
        for (let token = 1; token < record.length; token++)
          for (let output = 0; output < token; output++) expect(effects.at(name, weights, token, output)).toBe(0);
  });

  test("the convolutions reach as far as their layers, whatever the weights", () => {
    for (const weights of ["random", "trained"] as const)
      for (let token = 0; token < record.length; token++)
        expect(effects.at("convolution", weights, token, record.length - 1) > 0).toBe(record.length - 1 - token <= 8);
  });

  test("only the LSTM's steps grow with the text", () => {
    const grows = record.networks.filter(({ steps }) => new Set(steps).size > 1).map(({ name }) => name);
    expect(grows).toEqual(["lstm"]);
  });
});

test("each power of ten is as high as any other, and what is smaller than the least has no bar", () => {
  expect(level(1) - level(1e-3)).toBeCloseTo(level(1e-3) - level(1e-6), 12);
  expect([level(0), level(1e-13), level(2)]).toEqual([0, 0, 1]);
});

test("numbers in words", () => {
  expect(inWords(0)).toBe("does not change at all");
  expect(inWords(2.5e-7)).toBe("changes by 2.5·10⁻⁷ of its size");
  expect([0, 1, 2].map(tokensBack)).toEqual(["the last token itself", "1 token before the last", "2 tokens before the last"]);
});

const mark = (goal: string, hash: string) => goalsOf(at(hash))[goal]();
const own = exercises.filter(({ src }) => src === "figures/reach.html");

test("every goal of the page is an exercise of the book", () =>
  expect(Object.keys(goalsOf(at(""))).sort()).toEqual(own.map(({ goal }) => goal).sort()));

describe.each(own)("$goal", ({ goal, figure, answer }) => {
  test("is not reached at first", () => expect(mark(goal, figures.get(figure)!.state).right).toBe(false));
  test("is reached by the answer", () => expect(mark(goal, merged(figures.get(figure)!.state, answer)).right).toBe(true));
});

test.each([
  ["out-of-patch", "token=40"],
  ["out-of-patch", "weights=trained&token=54"],
  ["forgotten", "token=63"],
  ["forgotten", "weights=trained&token=3"],
  ["remembered", "weights=trained&token=60"],
  ["remembered", "token=3"],
])("%s is not reached by %s", (goal, hash) => expect(mark(goal, hash).right).toBe(false));

import { afterEach, describe, expect, test, vi } from "vitest";
import type { RunUpdate, Point, Run, Sample } from "../src/core/contract";
import { head, sampleAttention, visible } from "../src/pages/run/attention";
import { clock, digits, short, spoken } from "../src/core/format";
import { below, History, smoothed, span } from "../src/pages/run/history";
import { listen } from "../src/pages/run/live";
import { state } from "../src/pages/run/state";
import { linkTests } from "./links";
import { flat, written } from "../src/core/tables";

const point = (step: number, more: Partial<Point> = {}): Point => ({ entry: "point", step, loss: 1 / step, rate: 1e-3, norm: 1, seconds: step / 2, tokens: 100, ...more }); // prettier-ignore
const sample = (step: number, more: Partial<Sample> = {}): Sample => ({
  entry: "sample",
  step,
  prompt: "a",
  answer: `${step}`,
  ...more,
});
const run = (more: Partial<Run> = {}): Run => ({ title: "", task: "language", recipe: {}, spec: {}, data: [], seed: 0, versions: {}, machine: {}, steps: 10, ...more }); // prettier-ignore

describe("the history of a run", () => {
  test("grows by entries of every kind, in any order", () => {
    const history = new History(run({ points: [point(1)] }));
    history.add([{ entry: "score", step: 1, part: "validation", values: { loss: 2 } }, point(2), sample(2)]);
    expect(history.count).toBe(4);
    expect([...history.of("loss")]).toEqual([1, 0.5]);
    history.add([point(3)]);
    expect([...history.of("step")]).toEqual([1, 2, 3]);
  });

  test("a measure that is missing is NaN", () => {
    expect(new History(run({ points: [point(1, { mfu: null })] })).of("mfu")[0]).toBeNaN();
  });

  test("the last sample of an example, up to a step", () => {
    const history = new History(run({ samples: [sample(0), sample(5), sample(10), sample(10, { prompt: "b" })] }));
    expect(history.sampledSteps()).toEqual([0, 5, 10]);
    expect(history.samplesAt(7).map(({ answer }) => answer)).toEqual(["5", "10"]);
  });

  test("training time up to a step is that of the last step before it", () => {
    const history = new History(run({ points: [point(1), point(2), point(4)] }));
    expect([0, 1, 3, 9].map((step) => history.time(step))).toEqual([0, 0.5, 1, 2]);
  });
});

describe("indices among increasing numbers", () => {
  test("the last that does not exceed a limit", () => {
    expect([0, 1, 2, 5, 9].map((limit) => below([1, 2, 5], limit))).toEqual([-1, 0, 1, 2, 2]);
    expect(below([], 1)).toBe(-1);
  });
});

describe("the mean of the last numbers", () => {
  test("is what a plain loop gives, over fewer at the beginning and without NaN", () => {
    const y = [3, 1, NaN, 5, 2, 8];
    for (const size of [1, 2, 3, 10]) {
      const plain = y.map((_, i) => {
        const seen = y.slice(Math.max(0, i - size + 1), i + 1).filter(Number.isFinite);
        return seen.length ? seen.reduce((a, b) => a + b) / seen.length : NaN;
      });
      smoothed(y, size).forEach((value, i) => (Number.isNaN(plain[i]) ? expect(value).toBeNaN() : expect(value).toBeCloseTo(plain[i], 12))); // prettier-ignore
    }
  });

  test("is over about a fiftieth of the run", () => {
    expect([0, 10, 50, 100, 600, 2000, 5000, 100000].map(span)).toEqual([1, 1, 1, 2, 10, 20, 100, 2000]);
  });
});

test("numbers and times are written for people", () => {
  expect([0, 1500, 12345, 2.5e6, 3e9, 4e12, 1e-5, -20000].map(short)).toEqual(["0", "1500", "12.35k", "2.5M", "3G", "4T", "1e-5", "−20k"]); // prettier-ignore
  expect([1.8948671, 2.960872e-8, 0, -1, NaN, null].map(digits)).toEqual(["1.894867", "2.960872e-8", "0", "−1", "–", "–"]);
  expect([0, 59.4, 83, 3600, 36610].map(clock)).toEqual(["0:00", "0:59", "1:23", "1:00:00", "10:10:10"]);
  expect([0.2, 40, 150, 9000, 400000].map(spoken)).toEqual(["1 s", "40 s", "3 min", "2.5 h", "4.6 days"]);
});

describe("attention of an example", () => {
  const weights = { shape: [2, 2, 1, 4], dtype: "float64" as const, data: Array.from({ length: 16 }, (_, i) => i) };

  test("of one query over patches is drawn in their grid", () => {
    const attn = sampleAttention(sample(0, { attention: weights, tokens: ["class"], source: ["0", "1", "2", "3"], grid: [2, 2] }))!;
    expect(attn.grid).toEqual([2, 2]);
    expect(head(attn, 1, 0)).toEqual({ width: 2, height: 2, weights: Float64Array.from([8, 9, 10, 11]) });
  });

  test("without a matching grid is rows and columns of tokens", () => {
    const attn = sampleAttention(sample(0, { attention: weights, tokens: ["a"], source: ["w", "x", "y", "z"], grid: [3, 2] }))!;
    expect(attn.grid).toBeUndefined();
    expect(head(attn, 0, 1)).toMatchObject({ width: 4, height: 1 });
    expect(attn.keys).toEqual(["w", "x", "y", "z"]);
  });

  test("without layers and heads is not shown", () => {
    expect(sampleAttention(sample(0))).toBeUndefined();
    expect(sampleAttention(sample(0, { attention: { shape: [2, 2], dtype: "float64", data: [1, 0, 0, 1] } }))).toBeUndefined();
  });

  test("shows spaces and line ends, and numbers tokens without text", () => {
    expect(["a b", " ", "\n", "", undefined].map((token, i) => visible(token, i))).toEqual(["a b", "␣", "↵", "∅", "4"]);
  });
});

describe("the state", () => {
  linkTests(
    state,
    { axis: ["log", "x"], over: ["time", "money"], smooth: ["50", "-1"], at: ["0", "7", "1e9"], head: ["1.2", "1"] },
    ["#axis=x&over=money&smooth=-1&at=1e9&head=1"],
  );

  test("is as short as the choices", () =>
    expect(state.write({ ...state.initial(), log: true, at: 0, head: [1, 2] })).toBe("axis=log&at=0&head=1.2"));
});

test("a recipe is written as --set takes it", () => {
  expect(flat({ a: 1, b: { c: { d: null }, e: [1, 2] } })).toEqual([["a", 1], ["b.c.d", null], ["b.e", [1, 2]]]); // prettier-ignore
  expect([null, "x", 0.1, true, [0.9, 0.99]].map(written)).toEqual(["–", '"x"', "0.1", "true", "[0.9,0.99]"]);
});

describe("a live page", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const news = (more: Partial<RunUpdate>): RunUpdate => ({ series: "s", first: 0, summary: "", state: "running", ...more });
  const served = (...answers: (RunUpdate | Error)[]) =>
    vi.fn((_path: string) => {
      const next = answers.length > 1 ? answers.shift()! : answers[0];
      return next instanceof Error ? Promise.reject(next) : Promise.resolve({ ok: true, json: () => Promise.resolve(next) });
    });

  test("polls from its last entry, at once while more are waiting, then each second", async () => {
    vi.useFakeTimers();
    const ask = served(news({ entries: [point(1), point(2)], more: true }), news({ entries: [point(3)] }), news({}));
    vi.stubGlobal("fetch", ask);
    let known = 0;
    listen("s", () => known, { hear: ({ entries }) => (known += (entries ?? []).length), lost: () => expect.fail() });
    await vi.advanceTimersByTimeAsync(10);
    expect(ask.mock.calls.map(([path]) => path)).toEqual(["/entries?from=0", "/entries?from=2"]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(ask.mock.lastCall![0]).toBe("/entries?from=3");
  });

  test("reports a missing response, and polls more seldom", async () => {
    vi.useFakeTimers();
    const ask = served(new Error("gone"));
    vi.stubGlobal("fetch", ask);
    const lost = vi.fn();
    listen("s", () => 0, { hear: () => expect.fail(), lost });
    await vi.advanceTimersByTimeAsync(1500);
    expect([ask.mock.calls.length, lost.mock.calls.length]).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(ask.mock.calls.length).toBe(2);
  });

  test("reloads where another series is served", async () => {
    vi.useFakeTimers();
    const [ask, reload] = [served(news({ series: "other" })), vi.fn()];
    vi.stubGlobal("fetch", ask);
    vi.stubGlobal("location", { reload });
    listen("s", () => 0, { hear: () => expect.fail(), lost: () => expect.fail() });
    await vi.advanceTimersByTimeAsync(9000);
    expect([ask.mock.calls.length, reload.mock.calls.length]).toEqual([1, 1]);
  });
});

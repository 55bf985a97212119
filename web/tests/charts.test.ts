// The grammar of charts: scales, marks, names, and what keys and a pointer choose.
import { describe, expect, test } from "vitest";
import { type Point, shortened, thinned } from "../src/charts/marks";
import { spaced } from "../src/charts/names";
import { nearest, stepped } from "../src/charts/plot";
import { paddedRange, scale, wantsLog } from "../src/charts/scale";

describe("a scale", () => {
  test("has round ticks inside its range, about as many as requested", () => {
    for (const [low, high] of [
      [0, 600],
      [-3, 7],
      [1e-9, 3e-9],
      [2, 2.001],
    ])
      // prettier-ignore
      for (const few of [2, 5, 9]) {
        const { ticks, place } = scale([low, high], [10, 110], few);
        expect(ticks.length).toBeLessThanOrEqual(1.5 * few + 1);
        expect(ticks.length).toBeGreaterThan(0);
        for (const tick of ticks) expect(place(tick) >= 10 - 1e-9 && place(tick) <= 110 + 1e-9).toBe(true);
      }
    expect(scale([2, 2], [0, 100], 5).ticks).toEqual([2]);
    expect(scale([0, 10], [0, 100], 5, { ticks: [1, 3] }).ticks).toEqual([1, 3]);
  });

  test("is logarithmic on request, and names few of its ticks", () => {
    const found = scale([1, 100], [0, 200], 5, { log: true });
    [1, 10, 100].forEach((value, i) => expect(found.place(value)).toBeCloseTo(100 * i, 10));
    expect(found.ticks).toEqual([1, 2, 10, 20, 100]);
    expect(scale([1e-16, 10], [0, 100], 6, { log: true }).ticks.length).toBeLessThanOrEqual(10);
    expect(scale([1.5, 4.5], [0, 100], 5, { log: true }).ticks.length).toBeGreaterThan(1);
  });

  test("writes all ticks in one style", () => {
    const texts = (low: number, high: number) => {
      const { ticks, text } = scale([low, high], [0, 100], 4);
      return ticks.map(text);
    };
    expect(texts(0, 0.001)).toEqual(["0.0000", "0.0002", "0.0004", "0.0006", "0.0008", "0.0010"]);
    expect(texts(0, 4e-4)).toEqual(["0", "1e-4", "2e-4", "3e-4", "4e-4"]);
    expect(texts(0, 40000)).toEqual(["0", "10k", "20k", "30k", "40k"]);
    expect(texts(-1, 1)).toEqual(["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
  });

  test("has a margin around its numbers, and a logarithm skips zero", () => {
    expect(paddedRange([1, 2], false, 0.1)).toEqual([0.9, 2.1]);
    expect(paddedRange([0, 1, 100], true, 0.5)).toEqual([0.1, 1000]);
    expect(paddedRange([], false, 0.1)).toEqual([0, 1]);
    expect(paddedRange([NaN, 3], false, 0)).toEqual([3, 3]);
    expect([wantsLog([1, 30]), wantsLog([1, 3]), wantsLog([0, 30])]).toEqual([true, false, false]);
  });
});

describe("a line", () => {
  test("keeps the lowest and the highest point of each column of pixels", () => {
    const points = Array.from({ length: 1000 }, (_, i): Point => [i / 10, i === 503 ? 9 : i === 707 ? -9 : Math.sin(i)]);
    const kept = thinned(points);
    expect(kept.length).toBeLessThanOrEqual(200);
    expect(kept).toContainEqual([50.3, 9]);
    expect(kept).toContainEqual([70.7, -9]);
    expect(kept.map(([x]) => x)).toEqual(kept.map(([x]) => x).sort((a, b) => a - b));
  });

  test("of few points stays as it is", () => {
    const points: Point[] = [[100, 4], [200, NaN], [300, 6], [300.5, 7]]; // prettier-ignore
    expect(thinned(points)).toEqual(points);
  });
});

describe("what is chosen", () => {
  const marks = [[1, 2, 3], [], [1, 3]];

  test("is walked along a series and between series", () => {
    expect(stepped("Home", undefined, marks)).toEqual({ series: 0, mark: 0 });
    expect(stepped("ArrowRight", undefined, marks)).toEqual({ series: 0, mark: 2 });
    expect(stepped("ArrowLeft", { series: 0, mark: 2 }, marks)).toEqual({ series: 0, mark: 1 });
    expect(stepped("ArrowLeft", { series: 0, mark: 0 }, marks)).toEqual({ series: 0, mark: 0 });
    expect(stepped("ArrowDown", { series: 0, mark: 2 }, marks)).toEqual({ series: 2, mark: 1 });
    expect(stepped("ArrowDown", { series: 2, mark: 0 }, marks)).toEqual({ series: 0, mark: 0 });
    expect(stepped("ArrowUp", { series: 0, mark: 0 }, marks)).toEqual({ series: 2, mark: 0 });
    expect(stepped("End", { series: 2, mark: 0 }, marks)).toEqual({ series: 2, mark: 1 });
    expect(stepped("a", undefined, marks)).toBeUndefined();
    expect(stepped("Home", undefined, [[]])).toBeUndefined();
  });

  test("of a single series goes up and down along it", () => {
    expect(stepped("ArrowUp", { series: 0, mark: 0 }, [[1, 2]])).toEqual({ series: 0, mark: 1 });
    expect(stepped("ArrowDown", { series: 0, mark: 1 }, [[1, 2]])).toEqual({ series: 0, mark: 0 });
  });

  test("is the mark that is pointed at, or the nearest across where marks have no height", () => {
    expect(nearest([[[0, 0], [10, 0]], [[10, 9]]], [9, 8])).toEqual({ series: 1, mark: 0 }); // prettier-ignore
    expect(nearest([[[0, NaN], [10, NaN]]], [7, 99])).toEqual({ series: 0, mark: 1 }); // prettier-ignore
    expect(nearest([[]], [0, 0])).toBeUndefined();
  });
});

describe("names", () => {
  test("are moved apart, inside the frame where there is room", () => {
    expect(spaced([10, 11, 50], 15, [0, 100])).toEqual([10, 25, 50]);
    expect(spaced([95, 96, 97], 15, [0, 100])).toEqual([70, 85, 100]);
    expect(spaced([], 15, [0, 100])).toEqual([]);
  });

  test("are cut at the end", () => {
    expect(shortened("sinusoidal", 200)).toBe("sinusoidal");
    expect(shortened("sinusoidal", 40)).toBe("sinu…");
    expect(shortened("sinusoidal", 0)).toBe("si…");
  });
});

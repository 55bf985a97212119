import { readFileSync } from "node:fs";
import { describe, expect, test, vi } from "vitest";
import type { Patches } from "../src/core/contract";
import { ImageDesk, liesOn, ratio } from "../src/pages/image/desk";
import { goals } from "../src/pages/image/goals";
import { stateOf } from "../src/pages/image/state";
import { merged } from "../src/figure/messages";
import { exercises, figures } from "./book";
import { linkTests } from "./links";
import { Tab } from "./tab";

vi.stubGlobal("IntersectionObserver", class {}); // a desk watches what is on screen
const file = new URL("../../contract/photograph.json", import.meta.url);
const record: Patches = JSON.parse(readFileSync(file, "utf8"));
const desk = (hash = ""): ImageDesk => {
  new Tab(`#${hash}`);
  return new ImageDesk(record);
};
const right = (goal: string, hash = "") => goals[goal](desk(hash)).right;

describe("the numbers", () => {
  test("a patch of lawn attends to the lawn, one of the dog to the dog, and none to the person", () => {
    const on = (patch: number) => desk(`patch=${patch}`).shares().filter(liesOn).map(({ region }) => region.name); // prettier-ignore
    expect(on(74)).toEqual(["lawn"]);
    expect(on(66)).toContain("dog");
    expect(on(92)).toEqual([]);
  });

  test("the shares of the page are those that Python measured", () => {
    for (const { scheme, region, area, attention } of record.shares) {
      const page = desk(`scheme=${scheme}`);
      const own = record.regions.find(({ name }: { name: string }) => name === region)!;
      const found = page.shares(own.patches).find((share) => share.region.name === region)!;
      expect(found.area).toBeCloseTo(area, 12);
      expect(found.attention).toBeCloseTo(attention, 10);
      expect(ratio(found)).toBeCloseTo(attention / area, 9);
    }
  });

  test("queries of scale 0 attend uniformly", () => {
    const weights = desk("scale=0").row("weights");
    expect(Math.max(...weights) - Math.min(...weights)).toBeLessThan(1e-15);
  });
});

describe("goals", () => {
  const own = exercises.filter(({ src }) => src === "figures/image.html");

  test("every goal is an exercise of the book", () =>
    expect(Object.keys(goals).sort()).toEqual(own.map(({ goal }) => goal).sort()));

  test.each(own)("$goal is false at first, and true for the answer", ({ goal, figure, answer }) => {
    const start = figures.get(figure)!.state;
    expect(right(goal, start)).toBe(false);
    expect(right(goal, merged(start, answer))).toBe(true);
  });

  test("a scale of 0 does not count as an even row", () => expect(right("even-row", "scale=0")).toBe(false));
  test("added sinusoids do not bring near lawn", () => expect(right("near-lawn", "scheme=sinusoidal-nd")).toBe(false));
});

describe("the link", () =>
  linkTests(
    stateOf(record),
    {
      patch: ["3", "-1"],
      scheme: ["axial-rope", "nothing"],
      scale: ["2", "0", "3"],
      veil: ["off"],
      point: ["features:1", "features", "A:1"],
      digits: ["1", "9"],
      edits: ['{"w":{"0,1":2}}'],
    },
    ["patch=-1&scheme=nothing&scale=3"],
  ));

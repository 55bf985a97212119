// The graph of the steps of a program: rows with few crossings, which a plain order would not have.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Explorable } from "../src/core/contract";
import { crossings, rows } from "../src/widgets/graph";

const page: Explorable = JSON.parse(readFileSync(new URL("../../contract/sentence.json", import.meta.url), "utf8"));

test("two links that cross are uncrossed", () => {
  const level = new Map([["a", 0], ["b", 0], ["c", 1], ["d", 1]]); // prettier-ignore
  const links: [string, string][] = [["a", "d"], ["b", "c"]]; // prettier-ignore
  const plain = new Map([["a", 0], ["b", 1], ["c", 0], ["d", 1]]); // prettier-ignore
  expect(crossings(level, plain, links)).toBe(1);
  expect(crossings(level, rows(level, links), links)).toBe(0);
});

test("no two boxes of a column share a row, and there are never more crossings than in the plain order", () => {
  for (const { program, setting } of page.programs.filter(({ setting }) => setting === "plain")) {
    const level = new Map<string, number>(program.leaves.map(({ id }) => [id, 0]));
    for (const { id, inputs } of program.steps) level.set(id, 1 + Math.max(...inputs.map((input) => level.get(input)!)));
    const links = program.steps.flatMap(({ id, inputs }) => inputs.map((input): [string, string] => [input, id]));
    const taken = new Map<number, number>();
    const plain = new Map([...level].map(([id, at]) => [id, taken.set(at, (taken.get(at) ?? -1) + 1).get(at)!]));
    const found = rows(level, links);
    expect(new Set([...found].map(([id, row]) => `${level.get(id)} ${row}`)).size, setting).toBe(level.size);
    expect(Math.min(...found.values())).toBeGreaterThanOrEqual(0);
    expect(crossings(level, found, links)).toBeLessThanOrEqual(crossings(level, plain, links));
  }
});

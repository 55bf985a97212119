// The golden traces that Python wrote: the page must give every number again, after every move, and explain each truly.
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Array as ArrayRecord, ProgramRecord } from "../src/core/contract";
import { OPERATIONS } from "../src/core/ops";
import { type Act, type Edit, replay } from "../src/core/replay";
import { indexAt, type Tensor, unpack } from "../src/core/tensor";
import { Watched } from "../src/pages/watched/program";
import { spelled } from "../src/core/words";
import { reading } from "./reading";

interface Move {
  name: string;
  action: Act;
  edits: Edit[];
  values: Record<string, ArrayRecord>;
}

const CONTRACT = new URL("../../contract/", import.meta.url);
const json = (path: string) => JSON.parse(readFileSync(new URL(path, CONTRACT), "utf8"));
const names = readdirSync(new URL("cases/", CONTRACT)).filter((name) => name.endsWith(".json") && name !== "words.json");

test("there are golden traces", () => expect(names.length).toBeGreaterThan(0));

test("the page has the operations that Python has, and no others", () => {
  expect(Object.keys(OPERATIONS).sort()).toEqual([...json("operations.json")].sort());
});

test("the page spells words as Python does", () => {
  for (const { word, width, seed, values } of json("cases/words.json")) expect(spelled(word, width, seed)).toEqual(values);
});

test.each(names)("%s gives Python's numbers after every move, and explains each", (name) => {
  const { program: programRecord, moves }: { program: ProgramRecord; moves: Move[] } = json(`cases/${name}`);
  expect(moves.length).toBeGreaterThan(0);
  for (const move of moves) {
    const values = replay(programRecord, move.action, move.edits, Watched);
    expect(Object.keys(move.values).length).toBeGreaterThan(0);
    for (const [id, array] of Object.entries(move.values)) {
      const wanted = unpack(array);
      expect(values.get(id)!.shape, `${move.name}: ${id}`).toEqual(wanted.shape);
      expect(furthest(values.get(id)!, wanted), `${move.name}: ${id}`).toBeLessThan(1e-9);
    }
    expect(untrue(programRecord, values)).toEqual([]);
  }
});

/** Largest difference, as a part of 1 + size; equal infinities differ by nothing. */
function furthest(found: Tensor, wanted: Tensor): number {
  return wanted.data.reduce((worst, value, i) => Math.max(worst, apart(found.data[i], value)), 0);
}

const apart = (a: number, b: number): number => (Object.is(a, b) || a === b ? 0 : Math.abs(a - b) / (1 + Math.abs(b)));

/** Cells whose explanation does not give their number: by its value, or as its printed line reads. */
function untrue(programRecord: ProgramRecord, values: Map<string, Tensor>): string[] {
  const found: string[] = [];
  for (const { id, op, inputs, params = {} } of programRecord.steps) {
    const [given, output] = [inputs.map((input) => values.get(input)!), values.get(id)!];
    output.data.forEach((number, place) => {
      const index = indexAt(output.shape, place);
      const explanation = OPERATIONS[op].explain(given, params, index, output);
      if (!(apart(explanation.value, number) < 1e-12)) found.push(`${id}[${index}]: ${explanation.value}, not ${number}`);
      const line = explanation.terms.length ? (reading(explanation, given) ?? number) : number; // loops explain no cell
      const tolerance = op === "norm" ? 1e-4 : 1e-9; // norm prints its mean and variance to six digits
      if (!(apart(line, number) < tolerance)) found.push(`${id}[${index}] reads as ${line}, not ${number}`);
    });
  }
  return found;
}

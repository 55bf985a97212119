import { describe, expect, test } from "vitest";
import type { Parity, ParityPair } from "../src/core/contract";
import { stateOf } from "../src/pages/parity/state";
import { linkTests } from "./links";

const pair = (state: ParityPair["state"]): ParityPair => ({ state });
const parity = (...states: ParityPair["state"][]): Parity => ({
  a: "A",
  b: "B",
  verdict: "broken",
  rows: [],
  layers: [
    { a: "", b: "", paired: 1, pairs: [pair("equal")] },
    { a: "h.0", b: "blocks.0", paired: 1, differs: states.includes("differs"), pairs: states.map(pair) },
  ],
});

describe("the link of a comparison", () => {
  linkTests(stateOf(parity("equal", "differs", "unpaired")), { open: ["0", "1", "0.0", "1.2", "2", "1.3", "x", "1.1.1"] }, [
    "open=9&open=1&open=1.1",
  ]);

  test("opens the first difference, and nothing where there is none", () => {
    expect(stateOf(parity("equal", "differs")).initial().open).toEqual(["1", "1.1"]);
    expect(stateOf(parity("equal", "unpaired")).initial().open).toEqual([]);
  });
});

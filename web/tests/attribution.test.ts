import { describe, expect, test } from "vitest";
import type { Attribution } from "../src/core/contract";
import { stateOf } from "../src/pages/attribution/state";
import { correlated, drops } from "../src/pages/attribution/tokens";
import { linkTests } from "./links";

const score = (name: string) => ({ name, explanation: "", signed: false, values: [1, 2, 3] });
const record: Attribution = {
  title: "",
  model: "",
  answer: "",
  metric: "",
  value: 1,
  sequence: { name: "", kind: "words", labels: ["a", "b", "c", "d"] },
  tokens: [0, 1, 2],
  removed: [0.5, -2, 0],
  read: [3],
  lens_best: { dtype: "int64", shape: [1, 4], data: "" },
  removal: "",
  scores: [score("attention"), score("rollout"), score("lens")],
};

describe("the link of the page of an answer", () => {
  linkTests(
    stateOf(record),
    {
      after: ["0", "3", "4"],
      answer: ["0", "255", "-1"],
      score: ["0", "2", "9", "x"],
      token: ["0", "2", "4", ""],
      order: ["size", "pass", "up"],
    },
    ["score=3&token=9&order=none&after=9&answer=x"],
  );

  test("it begins with the rollout, or with the first score", () => {
    expect(stateOf(record).initial().score).toBe(1);
    expect(stateOf({ ...record, scores: [score("attention")] }).initial().score).toBe(0);
  });
});

test("a token supports the answer where its removal lowers it", () => {
  expect(drops(record)).toEqual([-0.5, 2, -0]);
});

test("a correlation that does not exist is a dash", () => {
  expect([correlated(null), correlated(undefined), correlated(0.254)]).toEqual(["–", "–", "0.25"]);
});

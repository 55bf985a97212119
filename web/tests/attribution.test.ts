import { describe, expect, test } from "vitest";
import type { Attribution } from "../src/core/contract";
import { stateOf } from "../src/pages/attribution/state";
import { correlated, drops } from "../src/pages/attribution/tokens";
import { linkTests } from "./links";

const picture = (name: string) => ({ name, explanation: "", signed: false, scores: [1, 2, 3] });
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
  removal: "",
  pictures: [picture("attention"), picture("rollout"), picture("lens")],
};

describe("the link of the page of an answer", () => {
  linkTests(stateOf(record), { picture: ["0", "2", "9", "x"], token: ["0", "2", "3", ""], order: ["size", "pass", "up"] }, [
    "picture=3&token=3&order=none",
  ]);

  test("it begins with the rollout, or with the first picture", () => {
    expect(stateOf(record).initial().picture).toBe(1);
    expect(stateOf({ ...record, pictures: [picture("attention")] }).initial().picture).toBe(0);
  });
});

test("a token supports the answer where its removal lowers it", () => {
  expect(drops(record)).toEqual([-0.5, 2, -0]);
});

test("a correlation that does not exist is a dash", () => {
  expect([correlated(null), correlated(undefined), correlated(0.254)]).toEqual(["–", "–", "0.25"]);
});

import { expect, test } from "vitest";
import { spelled, split } from "../src/core/words";

test("words stand between white space of any kind", () => {
  expect(split("  Love conquers\tall\u3000愛\n")).toEqual(["Love", "conquers", "all", "愛"]);
  expect(split(" ")).toEqual([]);
});

test("an accent typed in two ways is one word", () => expect(split("nai\u0308ve")).toEqual(split("na\u00efve")));

test("a word always gives the same tenths between -2 and 2, another seed others", () => {
  const word = spelled("Love", 64, 0);
  expect(word).toEqual(spelled("Love", 64, 0));
  expect(word).not.toEqual(spelled("Love", 64, 1));
  expect(word.every((value) => Math.abs(value) <= 2 && Number.isInteger(Math.round(value * 1e6) / 1e5))).toBe(true);
  expect(word.slice(0, 2)).toEqual(spelled("Love", 2, 0));
});

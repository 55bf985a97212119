// What holds for the schema of every page: a link makes a valid state, and the state makes the link again.
import { expect, test } from "vitest";
import type { Schema } from "../src/core/state";

/** texts: of each key of a link, valid and invalid ones. invalid: links that are as good as none. equal: where numbers are rounded. */
export function linkTests<S extends object>(
  of: Schema<S>,
  texts: Record<string, string[]>,
  invalid: string[] = [],
  equal: (found: S, wanted: S) => void = (found, wanted) => expect(found).toEqual(wanted),
): void {
  test("the initial state has an empty link, and the other way round", () => {
    expect(of.write(of.initial())).toBe("");
    equal(of.read(""), of.initial());
    expect(of.write(of.read("#unknown=1&=&&"))).toBe("");
  });

  test("every state comes back from its link", () => {
    const random = seeded(7);
    const seen = new Set<string>();
    for (let i = 0; i < 500; i++) {
      const state = of.read(someLink(texts, random));
      const link = of.write(state);
      equal(of.read(link), state);
      equal(of.read(`#${link}`), state);
      for (const name of Object.keys(of.fields) as (keyof S & string)[])
        if (!sameText(state[name], of.fields[name].initial(state))) seen.add(name);
    }
    const writable = (Object.keys(of.fields) as (keyof S & string)[]).filter((name) => of.fields[name].write.length); // others are in no link
    expect([...seen].sort()).toEqual(writable.sort()); // else a field is not tested
  });

  if (invalid.length) test.each(invalid)("%s is left out", (link) => equal(of.read(link), of.initial()));
}

const sameText = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

function someLink(texts: Record<string, string[]>, random: () => number): string {
  const link = new URLSearchParams();
  for (const [key, all] of Object.entries(texts)) while (random() < 0.45) link.append(key, all[Math.floor(random() * all.length)]);
  return link.toString();
}

/** Numbers in [0, 1) that depend on the seed only (mulberry32). */
export function seeded(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

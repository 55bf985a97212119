import { describe, expect, test } from "vitest";
import type { Messages } from "../src/core/contract";
import { count, randomEdges, hasSelfLoops, read, matching, spelled, table, selfLoops, without } from "../src/pages/graph/edges";
import { anchor, angleOf, arrow, loop, turned } from "../src/pages/graph/layout";
import { figure } from "../src/pages/graph/reasons";
import { stateOf } from "../src/pages/graph/state";
import { linkTests } from "./links";

const every = Array.from({ length: 9 }, (_, i) => [i % 3, Math.floor(i / 3)]);
const causal = every.filter(([sends, receives]) => sends <= receives);
const graphs = [
  { name: "complete", title: "complete", text: "", edges: every },
  { name: "causal", title: "causal", text: "", edges: causal },
];
const record = { words: ["a", "b", "c"], graphs, start: "complete" } as unknown as Messages;

describe("edges", () => {
  test("a pair is who sends, who receives; a row of the table receives", () => {
    expect(table([[2, 0]], 3).indexOf(true)).toBe(2);
    expect(count(table(causal, 3))).toBe(6);
  });

  test("a hidden node neither sends nor receives", () => {
    const left = without(table(every, 3), [1], 3);
    expect(left.map(Number)).toEqual([1, 0, 1, 0, 0, 0, 1, 0, 1]);
  });

  test("nodes send to themselves, or do not", () => {
    const apart = selfLoops(table(every, 3), 3, false);
    expect([count(apart), hasSelfLoops(apart, 3), hasSelfLoops(selfLoops(apart, 3, true), 3)]).toEqual([6, false, true]);
  });

  test("edges drawn by chance are as many as asked for, and each can be one of them", () => {
    let seed = 1;
    const chance = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
    const times = Array(16).fill(0);
    for (let i = 0; i < 400; i++) {
      const edges = randomEdges(4, 5, chance);
      expect(count(edges)).toBe(5);
      edges.forEach((there, at) => (times[at] += Number(there)));
    }
    for (const time of times) expect(Math.abs(time - 125)).toBeLessThan(50);
    expect([count(randomEdges(3, 0)), count(randomEdges(3, 9))]).toEqual([0, 9]);
  });

  test("a link spells them, four a letter", () => {
    for (const nodes of [1, 2, 3, 5, 16]) {
      const edges = randomEdges(nodes, Math.ceil((nodes * nodes) / 3));
      expect(read(spelled(edges), nodes)).toEqual(edges);
    }
    expect([read("zz", 3), read("ff", 3), read("", 3), read(null, 3)]).toEqual([undefined, undefined, undefined, undefined]);
  });

  test("a ready graph is known by its edges", () => {
    expect(matching(graphs, table(causal, 3), 3)?.name).toBe("causal");
    expect(matching(graphs, table([[0, 1]], 3), 3)).toBeUndefined();
  });
});

describe("the link", () => {
  const of = stateOf(record);
  linkTests(
    of,
    { edges: ["1ff", "008", "000", "zz", "1"], graph: [...graphs.map(({ name }) => name), "none"], hide: ["0.2", "7", "1.1"], word: ["1", "x"], sends: ["on"], order: ["2.0.1", "1.1.2"], digits: ["4", "9"], edits: ['{"words":{"0,1":3}}', "1", '{"W":{"0,0":1e9}}'] }, // prettier-ignore
    ["edges=zz&hide=7&word=x&order=1.1.2&digits=many&edits=1&graph=none"],
  );

  test("has the name of an example graph, and the edges of any other", () => {
    const begin = of.initial();
    expect(of.write({ ...begin, edges: table(causal, 3) })).toBe("graph=causal");
    expect(of.write({ ...begin, edges: table([[0, 1]], 3) })).toMatch(/^edges=[0-9a-f]{3}$/);
    expect(of.write({ ...begin, hidden: [0, 2], node: 1, sends: true, order: [2, 0, 1] })).toBe("hide=0.2&word=1&sends=on&order=2.0.1"); // prettier-ignore
  });
});

describe("the picture", () => {
  test("begins on top and goes clockwise", () => {
    expect(angleOf(0, 4)).toBeCloseTo(-Math.PI / 2);
    expect(angleOf(1, 4)).toBeCloseTo(0);
    expect([0, Math.PI / 2, Math.PI].map(anchor)).toEqual(["start", "middle", "end"]);
  });

  test("there and back are two lines, which both keep off the nodes", () => {
    const [there, back] = [arrow([0, 0], [100, 0], 13, 6), arrow([100, 0], [0, 0], 13, 6)];
    expect(Math.sign(there.middle[1])).toBe(-Math.sign(back.middle[1]));
    const [x, y] = there.line
      .match(/^M([\d.-]+),([\d.-]+)/)!
      .slice(1)
      .map(Number);
    expect(Math.hypot(x, y)).toBeCloseTo(13, 0);
  });

  test("a loop lies outside of its node", () => {
    expect(loop([0, 0], 0, 13, 38, 6).middle[0]).toBeGreaterThan(13);
  });

  test("words turn the shorter way round", () => {
    expect(turned(0.1, 2 * Math.PI - 0.1, 1)).toBeCloseTo(-0.1);
    expect(turned(0, 1, 0.5)).toBeCloseTo(0.5);
  });
});

test("a figure that is 0 is exactly that", () => {
  expect([0, 1048576, 0.12345, 3e-7].map(figure)).toEqual(["0", "1,048,576", "0.123", "3.0·10⁻⁷"]);
});

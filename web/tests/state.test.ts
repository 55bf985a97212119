// The state of a page: codes of its fields, the pages without a test file of their own, and the store with its two histories.
import { beforeEach, describe, expect, test } from "vitest";
import type { Explorable, Reach } from "../src/core/contract";
import { choice, field, fixed, flag, json, list, order, real, schema, whole } from "../src/core/state";
import { Store } from "../src/core/store";
import { stateOf as reach } from "../src/pages/reach/state";
import { stateOf as sentence } from "../src/pages/sentence/state";
import { stateOf as watched } from "../src/pages/watched/state";
import { linkTests } from "./links";
import { Tab } from "./tab";

describe("a code", () => {
  test("of numbers takes those in its range", () => {
    expect(["0", "7", "8", "-1", "1.5", "07", "x", "", "1e0"].map(whole(0, 7).read)).toEqual([0, 7, ...Array(7).fill(undefined)]);
    expect(["-0.5", "1e-3", "2", "", " ", "NaN", "-0"].map(real(-1, 1).read)).toEqual([-0.5, 1e-3, undefined, undefined, undefined, undefined, 0]); // prettier-ignore
  });

  test("of a list, of an order and of JSON is valid as a whole or not at all", () => {
    expect(["2.0", "", "2.x"].map(list(whole(0, 9)).read)).toEqual([[2, 0], [], undefined]);
    expect(["1,0", "1,1", "0", "0,1,2"].map(order(2).read)).toEqual([[1, 0], undefined, undefined, undefined]);
    expect(["[1]", "{", "null"].map(json((found) => (Array.isArray(found) ? found : undefined)).read)).toEqual([[1], undefined, undefined]); // prettier-ignore
  });

  test("of yes and no has its own words, and knows the usual ones", () => {
    const axis = flag("log", "linear");
    expect(["log", "linear", "true", "1", "false", "0", "x"].map(axis.read)).toEqual([true, false, true, true, false, false, undefined]); // prettier-ignore
    expect([true, false].map(axis.write)).toEqual(["log", "linear"]);
  });
});

describe("the page of a sentence", () => {
  const page = { words: ["a", "b", "c"], limit: 4, schemes: [{ name: "none" }, { name: "rope" }], scheme: "none", versus: "rope", compared: ["none"], causal: false, heads: 2, max_positions: 20 } as unknown as Explorable; // prettier-ignore
  linkTests(
    sentence(page),
    { story: ["clocks", "none"], words: ['["x","y"]', '["é & #","&amp;","%23","d"]', '["1","2","3","4","5"]', "[]", '["a","b","c"]'], order: ["2,0,1", "1,0", "3,2,1,0", "0,0,1"], scheme: ["rope", "x"], versus: ["none"], schemes: ["all", "rope", "rope,none", "x"], until: ["mixed", "x"], point: ["", "output:1,2", "x"], causal: ["true", "on"], slide: ["0", "20", "21"], head: ["1", "2"], digits: ["0", "8", "9"], position: ["1000"], step: ["64", "65"], waves: ["sine"], edits: ['{"words":{"1,0":-2.5},"w":{"x":1}}'] }, // prettier-ignore
    ["story=none&words=[]&order=0,0,1&slide=21&head=2&digits=9&edits=[1]"],
  );

  test("keeps an order only for as many words", () => {
    expect(sentence(page).read('words=["x","y"]&order=2,0,1').order).toEqual([0, 1]);
  });
});

describe("the page of a program", () =>
  linkTests(watched(["s0", "s4"], 3), { open: ['["s4"]', '["s0","s9"]', "s0"], head: ["2", "3"], digits: ["2"], edits: ['{"s0":{"0,0":1}}'] })); // prettier-ignore

describe("the page of reach", () => {
  const record = { length: 12, timed_lengths: [16, 32, 64] } as Reach;
  linkTests(
    reach(record),
    { weights: ["trained", "x"], length: ["4", "8", "3", "13"], token: ["0", "7", "11", "12"], timed: ["32", "64", "5"] },
    ["weights=x&length=3&token=12&timed=5"],
  );

  test("has a token inside the text", () => expect(reach(record).read("length=4&token=11").token).toBe(3));
});

interface Small {
  text: string;
  tab: string;
  cursor: number;
  own: number;
}

const small = schema<Small>({
  text: field(choice(["a", "b", "c", "d"]), "a"),
  tab: field(choice(["one", "two"]), "one", { history: "back" }),
  cursor: field(whole(0, 99), 0, { history: "none" }),
  own: fixed(1),
});

describe("a store", () => {
  let tab = new Tab();
  let store = new Store(small);
  beforeEach(() => {
    tab = new Tab();
    store = new Store(small);
  });

  test("begins as the address says, and follows it", () => {
    tab.location.hash = "#text=c&cursor=7";
    const seen: Partial<Small>[] = [];
    store = new Store(small);
    store.onChange((change) => seen.push(change));
    expect(store.state).toEqual({ text: "c", tab: "one", cursor: 7, own: 1 });
    tab.location.hash = "#tab=two";
    tab.listeners.get("hashchange")!(undefined);
    expect(store.state).toEqual({ text: "a", tab: "two", cursor: 0, own: 1 });
    expect(seen).toEqual([store.state]);
  });

  test("a step has an address of its own, to which Back and Forward lead", () => {
    store.set({ text: "b" });
    store.set({ cursor: 3 });
    store.set({ tab: "two" });
    expect(tab.entries).toEqual(["", "#text=b&cursor=3", "#text=b&tab=two&cursor=3"]);
    tab.go(-1);
    expect([store.state.text, store.state.tab, store.state.cursor]).toEqual(["b", "one", 3]);
    tab.go(-1);
    expect(store.link()).toBe("");
    tab.go(2);
    expect(store.link()).toBe("text=b&tab=two&cursor=3");
  });

  test("a movement is one step", () => {
    for (const [i, text] of ["b", "c", "d"].entries()) store.set({ text }, { step: i === 0 });
    expect(tab.entries).toEqual(["", "#text=d"]);
    store.undo();
    expect(store.state.text).toBe("a");
    store.begin();
    for (const text of ["b", "c"]) store.set({ text }, { step: false });
    expect(tab.entries).toEqual(["", "#text=d", "", "#text=c"]);
    store.undo();
    expect(store.state.text).toBe("a");
  });

  test("undo takes back what was changed, and redo brings it again; neither counts what is only looked at", () => {
    store.set({ text: "b" });
    store.set({ tab: "two" });
    store.set({ cursor: 5 });
    tab.press("z");
    expect(store.state.text).toBe("a");
    tab.press("Z", { shiftKey: true });
    expect([store.state.text, store.state.tab]).toEqual(["b", "two"]);
    store.set({ text: "c" });
    store.redo();
    expect(store.state.text).toBe("c");
    tab.press("z", { target: { matches: () => true } }); // in a field, which has an undo of its own
    expect(store.state.text).toBe("c");
  });

  test("undo takes back the browser's Back as well", () => {
    store.set({ text: "b" });
    tab.go(-1);
    expect(store.state.text).toBe("a");
    store.undo();
    expect(store.state.text).toBe("b");
  });

  test("in a frame the link in memory counts, and not the address", () => {
    tab = new Tab("#text=c");
    tab.dataset.link = "text=d";
    store = new Store(small);
    expect(store.state.text).toBe("d");
    tab.dataset.link = "tab=two";
    tab.listeners.get("hashchange")!(undefined);
    expect(store.link()).toBe("tab=two");
  });

  test("where there is no address, the state lives in the store", () => {
    tab = new Tab("", true);
    store = new Store(small);
    store.set({ text: "b", tab: "two" });
    store.set({ cursor: 1 });
    expect(store.link()).toBe("text=b&tab=two&cursor=1");
    store.undo();
    expect(store.state.text).toBe("a");
  });
});

import { describe, expect, test } from "vitest";
import { bright, figureLink, fitting, linkOf, merged, viewOf } from "../src/figure/messages";
import { styleOf } from "../src/figure/view";

describe("a page in a notebook's cell", () => {
  test("what is chosen is what stands behind the # of an address", () => {
    expect(linkOf("about:srcdoc#head=1.2&asks=3")).toBe("head=1.2&asks=3");
    expect(linkOf("#story=slide")).toBe("story=slide");
    expect(linkOf("srcdoc")).toBe("");
    expect(linkOf("about:srcdoc#")).toBe("");
  });

  test("a cell is as high as its page, up to a bound", () => {
    expect(fitting(411.2, 760)).toBe(412);
    expect(fitting(2000, 760)).toBe(760);
    expect(fitting(2000, 0)).toBe(2000);
    expect(fitting(0, 760)).toBe(120);
  });

  test("bright letters stand on a dark ground", () => {
    expect(bright([255, 255, 255, 255])).toBe(true);
    expect(bright([212, 212, 212, 255])).toBe(true);
    expect(bright([33, 33, 33, 255])).toBe(false);
    expect(bright([0, 0, 160, 255])).toBe(false);
  });
});

describe("a figure", () => {
  test("the link of a figure holds how it is shown and what is chosen", () => {
    const link = figureLink("story=shuffle&order=2,0,1", " strip  output ");
    expect(viewOf(link)).toEqual({ link: "story=shuffle&order=2%2C0%2C1", figure: true, parts: ["strip", "output"] });
    expect(viewOf(figureLink("", null))).toEqual({ link: "", figure: true, parts: [] });
  });

  test("a link of a whole page stays as it is", () => {
    expect(viewOf("story=shuffle&order=2,0,1")).toEqual({ link: "story=shuffle&order=2,0,1", figure: false, parts: [] });
  });

  test("names of parts that could end a style sheet's rule are left out", () => {
    expect(viewOf("view=figure&part=a]{}+mask").parts).toEqual(["mask"]);
  });

  test("fields of a link are set and taken out", () => {
    expect(merged("story=shuffle&scheme=rope", "order=2,0,1&scheme=")).toBe("story=shuffle&order=2%2C0%2C1");
    expect(merged("", "order=2,0,1")).toBe("order=2%2C0%2C1");
  });

  test("parts that are not named are hidden, and what surrounds a page unless it is named", () => {
    expect(styleOf([])).not.toContain(":has");
    expect(styleOf(["strip", "tabs"])).toContain('[data-part]:not(:is([data-part~="strip"],[data-part~="tabs"])');
    expect(styleOf(["strip", "tabs"])).not.toMatch(/is\([^)]*tabs[^)]*\) { display/);
  });
});

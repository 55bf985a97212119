import { describe, expect, test } from "vitest";
import { bright, fitting, linkOf } from "../src/figure/messages";

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

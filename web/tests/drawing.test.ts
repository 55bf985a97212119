import { part } from "../src/widgets/steps";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Box, Drawing } from "../src/core/contract";
import { type Area, type Placed, short, sized, SIZE, wideAs, wrapped } from "../src/pages/drawing/boxes";
import { inRows, type Layout, layout } from "../src/pages/drawing/layout";
import { nearest, repeats, spoken } from "../src/pages/drawing/picture";
import { stateOf } from "../src/pages/drawing/state";
import { linkTests } from "./links";
import { written } from "../src/pages/drawing/wires";
import { toy } from "./toy";

const drawings: Record<string, Drawing> = JSON.parse(
  readFileSync(new URL("../../contract/drawings.json", import.meta.url), "utf8"),
);
const WIDTHS = [340, 370, 700, 860, 1400];
const all = Object.keys(drawings).flatMap((name) => WIDTHS.map((width): [string, number] => [name, width]));
const named = (made: Layout, id: string): Placed => made.boxes.find(({ box }) => box.id === id)!;
const within = (a: Area, b: Area): boolean =>
  a.x >= b.x - 0.01 && a.y >= b.y - 0.01 && a.x + a.width <= b.x + b.width + 0.01 && a.y + a.height <= b.y + b.height + 0.01;
const apart = (a: Area, b: Area): boolean =>
  a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;

describe.each(all)("%s at %i pixels", (name, width) => {
  const drawing = drawings[name];
  const made = layout(drawing, width);

  test("every box stands once, inside the picture", () => {
    expect(made.boxes.map(({ box }) => box.id).sort()).toEqual(drawing.boxes.map(({ id }) => id).sort());
    for (const one of [...made.boxes, ...made.frames]) expect(within(one, { x: 0, y: 0, ...made })).toBe(true);
    for (const { points } of made.paths)
      for (const { x, y } of points) expect(x >= 0 && y >= 0 && x <= made.width && y <= made.height).toBe(true);
  });

  test("the picture is no wider than the page", () => expect(made.width).toBeLessThanOrEqual(width));

  test("boxes do not cover one another; what stands in a box stays in it", () => {
    for (const a of made.boxes) {
      if (a.box.inside) expect(within(a, named(made, a.box.inside))).toBe(true);
      for (const b of made.boxes)
        if (a !== b && a.box.inside !== b.box.id && b.box.inside !== a.box.id)
          expect(apart(a, b), `${a.box.id}, ${b.box.id}`).toBe(true);
    }
  });

  test("a frame holds its own boxes and no others, and frames lie in one another", () => {
    const chain = (box: Box): string[] => {
      const found = [];
      for (let id = box.frame; id; id = drawing.frames.find((f) => f.id === id)!.outer) found.push(id);
      return found;
    };
    for (const frame of made.frames)
      for (const one of made.boxes)
        expect(within(one, frame) || !apart(one, frame), `${one.box.id}, ${frame.frame.id}`).toBe(
          chain(one.box).includes(frame.frame.id),
        );
  });

  test("the stream goes up, and every arrow ends at the edge of its box", () => {
    for (const link of drawing.links.filter(({ kind }) => (kind ?? "stream") === "stream"))
      expect(named(made, link.target).y).toBeLessThan(named(made, link.source).y);
    for (const { points, head } of made.paths.filter(({ head }) => head)) {
      const end = points.at(-1)!;
      const grown = (a: Area) => ({ x: a.x - 1, y: a.y - 1, width: a.width + 2, height: a.height + 2 });
      expect(head && made.boxes.some((one) => within({ ...end, width: 0, height: 0 }, grown(one)))).toBe(true);
    }
  });

  test("texts stay in their boxes, squeezed by a third at most", () => {
    for (const { texts } of made.boxes)
      for (const { text, role, room } of texts) expect(wideAs(text, role) * 0.6, text).toBeLessThanOrEqual(room + 6);
  });
});

test("queries, keys and values have an arrow each into self-attention, and the encoder brings two", () => {
  const letters = layout(drawings.t5, 900).paths.flatMap(({ letter }) => letter?.text ?? []);
  expect(letters.filter((letter) => letter === "q")).toHaveLength(3);
  expect(letters.filter((letter) => letter === "k")).toHaveLength(3);
});

test("residuals pass by on the outer side, from a dot in the stream to a sum", () => {
  const { paths, boxes } = layout(drawings.t5, 900);
  const residuals = paths.filter(({ kind }) => kind === "residual");
  expect(residuals).toHaveLength(5);
  for (const { points, dot } of residuals) {
    expect(dot).toBe(true);
    const [start, aside] = points;
    const sum = boxes.find(({ box, y, height }) => box.kind === "sum" && Math.abs(y + height / 2 - points.at(-1)!.y) < 0.01)!;
    expect(aside.x > start.x).toBe(sum.box.tower === 1);
  }
});

test("parallel parts stand side by side in rows of two", () => {
  const rows = inRows(drawings.parallel, 0).map(({ boxes }) => boxes.map(({ kind }) => kind));
  expect(rows).toContainEqual(["attention", "feedforward"]);
  expect(rows).toContainEqual(["norm", "norm"]);
});

test("an unlisted end of a link is an error that names it", () => {
  const links = [{ source: "input", target: "nowhere" }];
  expect(() => layout({ ...drawings["vit-b"], links }, 900)).toThrow("nowhere");
});

test("a norm says all in one line where there is room", () => {
  const box = drawings.t5.boxes.find(({ kind }) => kind === "norm")!;
  expect(sized(box, [], 236).height).toBeLessThan(sized(box, [], 110).height);
});

test("words are set in lines that fit", () => {
  const lines = wrapped("shift all positions by the same offset", "detail", 90);
  expect(lines.join(" ")).toBe("shift all positions by the same offset");
  expect(Math.max(...lines.map((line) => line.length * SIZE.detail * 0.55))).toBeLessThanOrEqual(90);
});

test("arrow keys find the nearest box", () => {
  const { boxes } = layout(drawings.t5, 900);
  const solid = boxes.filter(({ round }) => !round);
  const at = (id: string) => solid.find(({ box }) => box.id === id)!;
  expect(nearest(at("input"), solid, [0, -1])?.box.id).toBe("embedding");
  expect(nearest(at("embedding"), solid, [-1, 0])?.box.id).toBe("encoder.embedding");
  expect(nearest(at("output"), solid, [0, -1])).toBeUndefined();
});

test("a box has a description for a screen reader", () => {
  const box = drawings.turns.boxes.find(({ kind }) => kind === "attention")!;
  expect(repeats(box, drawings.turns)).toBe(27);
  expect(spoken(sized(box, [], 236), drawings.turns)).toBe(
    "Self-attention, 16 heads of 128, 4 key heads, shared, ✗\u00a0permute, reverse, [N, 2,048], 10.5 M parameters; 27 times; equivariant to shift",
  );
});

test("counts are short", () =>
  expect([0, 9_999, 12_288, 1_048_576, 20_554_567_680].map(short)).toEqual(["0", "9,999", "12.3 k", "1.05 M", "20.6 B"]));

test("a path has round corners", () => {
  const corner = [
    { x: 0, y: 20 },
    { x: 0, y: 0 },
    { x: 4, y: 0 },
  ];
  expect(written(corner)).toBe("M0,20L0,2Q0,0 2,0L4,0");
});

test("steps of a box are a program whose inputs are given", () => {
  const own = part(toy, ["K", "Y"]);
  expect(own.leaves.map(({ id, kind }) => [id, kind])).toEqual([
    ["Q", "content"],
    ["P", "content"],
  ]);
  expect(own.outputs).toEqual(["Y"]);
});

describe("the link", () =>
  linkTests(
    stateOf(drawings.t5),
    {
      box: ["embedding", "none"],
      action: ["shift", "fly"],
      head: ["0", "1", "99"],
      digits: ["4", "x"],
      edits: ['{"W":{"0,1":2}}', "{"],
    },
    ["box=none&action=fly&head=99&digits=x"],
  ));

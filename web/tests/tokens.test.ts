import { describe, expect, test } from "vitest";
import type { Bands, SoundCut, Tokenised } from "../src/core/contract";
import { cellOf, numberAt, numbersOf, Pixels, placeOf, type Size, tokenOf } from "../src/pages/tokens/tubelets";
import { boxed, step } from "../src/pages/tokens/cells";
import { whole } from "../src/pages/tokens/counts";
import { under } from "../src/pages/tokens/waveform";
import { speed } from "../src/pages/tokens/player";
import { turned } from "../src/pages/tokens/sound";
import { energy, hann, inPatch, logEnergy, nearest, range, reads, terms } from "../src/pages/tokens/spectrum";
import { goalsOf } from "../src/pages/tokens/goals";
import type { TokensPage } from "../src/pages/tokens/page";
import { merged } from "../src/figure/messages";
import { exercises, figures } from "./book";
import { type Kind, stateOf, within } from "../src/pages/tokens/state";
import { linkTests } from "./links";

const array = (shape: number[], data: number[]) => ({ shape, dtype: "float64" as const, data });
const KINDS: Kind[] = ["sound", "picture", "film"];

describe("boxes of pixels", () => {
  const size: Size = [2, 3, 4];

  test("a number's place and its number undo each other", () => {
    for (let i = 0; i < 3 * 24; i++) expect(numberAt(size, placeOf(size, i))).toBe(i);
    expect(placeOf(size, 24 + 12 + 4 + 1)).toEqual({ c: 1, f: 1, y: 1, x: 1 });
  });

  test("a token's cell and its number undo each other", () => {
    for (let i = 0; i < 24; i++) expect(tokenOf(size, cellOf(size, i))).toBe(i);
  });

  test("numbers go by colour, frame, row, column", () => {
    const bytes = Array.from({ length: 2 * 2 * 2 * 3 }, (_, i) => i * 10);
    const pixels = new Pixels([2, 2, 2], btoa(String.fromCharCode(...bytes)));
    expect(pixels.byte(1, 0, 1, 2)).toBe(170);
    const found = numbersOf(pixels, [2, 1, 2], [0, 1, 0]);
    expect(Array.from(found, (v) => Math.round(v * 255))).toEqual([60, 90, 180, 210, 70, 100, 190, 220, 80, 110, 200, 230]);
  });

  test("pixels that do not fill their size are an error", () => {
    expect(() => new Pixels([1, 2, 2], btoa("abc"))).toThrow("Pixels of 1×2×2 take 12 bytes, found 3.");
  });
});

describe("energies", () => {
  const samples = Array.from({ length: 16 }, (_, t) => Math.cos((2 * Math.PI * 3 * t) / 16));

  test("a Hann window is periodic", () => {
    const found = hann(8);
    expect(found[0]).toBe(0);
    expect(found[4]).toBe(1);
    expect(found[2]).toBeCloseTo(0.5, 14);
  });

  test("the energy of a tone is at its frequency, and half as much at its neighbors", () => {
    // a cosine through a Hann window: N/4 at its frequency, N/8 at the neighbours, nothing elsewhere
    expect(energy(samples, 3)).toBeCloseTo(16, 10);
    expect(energy(samples, 2)).toBeCloseTo(4, 10);
    expect(energy(samples, 4)).toBeCloseTo(4, 10);
    expect(energy(samples, 7)).toBeCloseTo(0, 10);
  });

  const bands: Bands = { step: 500, begins: [1, 3], counts: [3, 2], weights: array([5], [0.5, 1, 0.5, 1, 0.25]), floor: 1e-10 };

  test("a band adds up what it hears", () => {
    expect(terms(samples, bands, 1).map(({ hertz, weight }) => [hertz, weight])).toEqual([[1500, 1], [2000, 0.25]]); // prettier-ignore
    expect(logEnergy(terms(samples, bands, 1), bands.floor)).toBeCloseTo(Math.log(17), 10);
    expect(logEnergy(terms(new Float64Array(16), bands, 0), bands.floor)).toBeCloseTo(Math.log(1e-10), 12);
    expect(range(bands, 0)).toEqual([500, 1500]);
  });
});

describe("tokens of a sound", () => {
  const cut = {
    window: 200,
    hop: 80,
    frame_positions: array([5, 1], [0.0125, 0.0375, 0.0625, 0.0875, 0.1125]),
    mel: array([10, 4], new Array(40).fill(0)),
    mel_positions: array(
      [10, 1],
      Array.from({ length: 10 }, (_, i) => (i * 80 + 100) / 8000),
    ),
    patch: [2, 2],
    patch_positions: array([10, 2], Array.from({ length: 20 }, (_, i) => (i % 2 ? 0.5 : ((Math.floor(i / 4) * 160 + 140) / 8000)))), // prettier-ignore
  } as unknown as SoundCut;

  test("each reads its own samples", () => {
    expect(reads(cut, "frames", 2)).toEqual([400, 600]);
    expect(reads(cut, "mel", 2)).toEqual([160, 360]);
    expect(reads(cut, "patches", 3)).toEqual([160, 440]);
  });

  test("one is found under a point, and at a time", () => {
    expect(under(cut, "frames", 450, 0)).toBe(2);
    expect(under(cut, "mel", 60, 0)).toBe(0);
    expect(under(cut, "mel", 60 + 85, 0)).toBe(1);
    expect(under(cut, "mel", 1e6, 0)).toBe(9);
    expect(under(cut, "patches", 60 + 165, 0.9)).toBe(3);
    expect(nearest(cut, "frames", 0.05)).toBe(1);
    expect(nearest(cut, "mel", 0.0325)).toBe(2);
  });

  test("a number of a patch is one of the spectrogram", () => {
    expect(inPatch(cut, 3, 0)).toEqual({ window: 2, band: 2 });
    expect(inPatch(cut, 3, 3)).toEqual({ window: 3, band: 3 });
  });

  test("a patch is drawn with high bands above, and read back", () => {
    for (let i = 0; i < 12; i++) expect(turned({ patch: [4, 3] }, turned({ patch: [4, 3] }, i, true))).toBe(i);
    expect(turned({ patch: [4, 3] }, 0)).toBe(2);
  });
});

describe("what is chosen", () => {
  const of = stateOf(KINDS);
  const texts = { cut: ["0", "2", "x"], way: ["frames", "patches", "odd"], token: ["7", "-1", "1e3"], number: ["11", "1.5"], frame: ["0", "5"], span: ["0.5", "2", "-4"] }; // prettier-ignore
  const sections = Object.fromEntries(KINDS.map((kind) => [kind, ["cut=2&token=3", "way=frames", "number=1&frame=0", "cut=-1"]]));
  linkTests(of, { see: [...KINDS, "smell"], ...texts, ...sections }, ["see=smell&cut=-1&token=x&number=1.5&span=-4&way=odd"]);

  test("the open section has the names of its fields, and the others come back too", () => {
    const begin = of.initial();
    const state = { ...begin, see: "film" as const, film: { ...begin.film, cut: 2, token: 7, number: 11, frame: 5 } };
    expect(of.write(state)).toBe("see=film&cut=2&token=7&number=11&frame=5");
    expect(of.write({ ...state, picture: { ...begin.picture, cut: 1 } })).toContain("picture=cut%3D1");
    expect(stateOf(["picture"]).read("see=film").see).toBe("picture");
  });

  test("what is not there is replaced", () => {
    expect([within(3, 4, 0), within(4, 4, 0), within(undefined, 4, 2)]).toEqual([3, 0, 2]);
  });
});

test("keys lead within a field", () => {
  expect(step("ArrowRight", 3, 4, 8)).toBe(4);
  expect(step("ArrowDown", 5, 4, 8)).toBe(5);
  expect(step("End", 0, 4, 8)).toBe(7);
  expect(step("x", 0, 4, 8)).toBeUndefined();
});

test("boxes are shares of the whole", () => {
  expect(boxed(1, 2, 1, 2, 4, 8)).toBe("left:25%;top:25%;width:25%;height:25%");
});

test("counts are written short", () => {
  expect([whole(1234), whole(12.54), whole(98.4)]).toEqual(["1,234", "12.5", "98.4"]);
});

test("slow sounds are played in a buffer that browsers take", () => {
  expect(speed(8000)).toEqual({ buffer: 8000, by: 1 });
  expect(speed(3000)).toEqual({ buffer: 9000, by: 1 / 3 });
});

describe("the exercises of the book", () => {
  const cut = (side: number) => ({ kind: "patches", side, grid: [224 / side, 224 / side], numbers: 3 * side * side });
  const record = {
    sound: { rate: 8000, cuts: [{ window: 200, hop: 80, mel: array([98, 2], []) }] },
    picture: { cuts: [cut(16), cut(8), cut(14), cut(32)] },
    film: { cuts: [{ size: [2, 16, 16], grid: [8, 4, 4] }] },
  } as unknown as Tokenised;
  const at = (hash: string) => ({ record, state: stateOf(KINDS).read(hash) }) as TokensPage;
  const mark = (goal: string, hash: string) => goalsOf(at(hash))[goal]();
  const own = exercises.filter(({ src }) => src === "figures/tokens.html");

  test("are the goals of the page", () => expect(Object.keys(goalsOf(at(""))).sort()).toEqual(own.map(({ goal }) => goal).sort()));

  test.each(own)("$goal: not at first, and by the answer", ({ goal, figure, answer }) => {
    expect(mark(goal, figures.get(figure)!.state).right).toBe(false);
    expect(mark(goal, merged(figures.get(figure)!.state, answer)).right).toBe(true);
  });

  test.each([
    ["sixteenfold-pairs", "see=picture&cut=3", "49 tokens make 2,401 pairs, 0.0625 times as many as with patches of 16 × 16."],
    ["sixteenfold-pairs", "see=sound", "Look at the picture."],
    ["slice-of-a-moment", "token=10", "Token 10 covers 0.100 s to 0.125 s."],
    ["slice-of-a-moment", "way=frames", "Choose the log-mel frames, whose slices overlap."],
    ["next-in-time", "see=film&token=75", "Token 75 is at another row or column than token 74."],
    ["next-in-time", "see=film&token=58", "Token 58 is at the same row and column, but earlier."],
  ])("%s is not reached by %s", (goal, hash, says) => expect(mark(goal, hash)).toEqual({ right: false, says }));
});

// The size and texts of a box: a pure function of the box, the boxes inside it, and its width.
import type { Box } from "../../core/contract";

export interface Point {
  x: number;
  y: number;
}

export interface Area extends Point {
  width: number;
  height: number;
}

export type Role = "title" | "detail" | "foot" | "broken" | "slot" | "letter" | "heading" | "repeat";

/** A line of text; x is its left, middle or right end, y its base line, room how wide it may be. */
export interface Text extends Point {
  text: string;
  role: Role;
  anchor: "start" | "middle" | "end";
  room: number;
}

/** round: a sum or a join, drawn as a circle. glyph: the position of a mask's picture. parts: the content of the box. */
export interface Placed extends Area {
  box: Box;
  round: boolean;
  texts: Text[];
  parts: Placed[];
  glyph?: Area;
}

export const SIZE: Record<Role, number> = {
  title: 14,
  detail: 12,
  foot: 11,
  broken: 11,
  slot: 10.5,
  letter: 10.5,
  heading: 18,
  repeat: 12.5,
};
const HIGH = { title: 17, detail: 15, foot: 15, broken: 14.5 };
const LETTER: Partial<Record<Role, number>> = { title: 0.58, heading: 0.5 }; // of the size: a letter's usual width
const NARROW = 84; // a box beside the stream on a phone
const [SIDE, TOP, BOTTOM, BETWEEN, LABEL, GLYPH] = [9, 8, 8, 6, 38, 26];
export const RADIUS = 10;
const SLOTS = [
  { slot: "values", text: "values" },
  { slot: "scores", text: "scores" },
  { slot: "rotate", text: "q, k" },
];

export const isRound = ({ kind }: Box): boolean => kind === "sum" || kind === "join";

/** The approximate width of a text. */
export const wideAs = (text: string, role: Role): number => text.length * SIZE[role] * (LETTER[role] ?? 0.55);

/** Words in lines that fit; a word that is too long has a line of its own, which the drawing squeezes. */
export function wrapped(text: string, role: Role, room: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && wideAs(longer, role) <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** A box of this width at the origin. insides: all boxes in it. */
export function sized(box: Box, insides: Box[], width: number): Placed {
  const plain = { box, round: false, x: 0, y: 0, width, texts: [], parts: [] };
  if (isRound(box)) return { ...plain, round: true, width: 2 * RADIUS, height: 2 * RADIUS };
  if (box.inside) return chip(box, width);
  const texts: Text[] = [];
  const heading = width < NARROW ? "detail" : "title";
  const room = width - (width < NARROW ? 1 : 2) * SIDE;
  const parts = within(insides, width);
  const inner = new Set(parts.boxes.flatMap(({ box }) => brokenActions(box)));
  const left = brokenActions(box).filter((action) => !inner.has(action));
  const [shape, size] = [written(box), counted(box)];
  const ends = wideAs(shape, "foot") + wideAs(size, "foot");
  const longest = Math.max(wideAs(shape, "foot"), wideAs(size, "foot"));
  const alone = !box.lines?.length && !left.length && !insides.length; // a norm: one line says all
  const slim = alone && !isEnd(box) && 2 * longest + wideAs(box.title, "title") + 16 <= room;
  let y = TOP;
  for (const line of wrapped(box.title, heading, room)) y = write(texts, line, heading, "middle", width / 2, y, room);
  if (slim) y -= (HIGH.title + HIGH.foot) / 2;
  for (const text of box.lines ?? [])
    for (const line of wrapped(text, "detail", room)) y = write(texts, line, "detail", "middle", width / 2, y, room);
  if (insides.length) {
    texts.push(...parts.texts.map((text) => moved(text, 0, y + 4)));
    parts.boxes = parts.boxes.map((part) => shifted(part, 0, y + 4));
    y += parts.height + 4;
  }
  for (const line of crossed(box, left, room)) y = write(texts, line, "broken", "middle", width / 2, y, room);
  if (isEnd(box) || ends + 12 > room || (slim === false && !(shape && size))) {
    const foot = isEnd(box) ? shape : ends + 12 > room ? size || shape : shape || size;
    if (foot) y = write(texts, foot, "foot", "middle", width / 2, y, room);
  } else {
    write(texts, shape, "foot", "start", SIDE, y, room);
    y = write(texts, size, "foot", "end", width - SIDE, y, room);
  }
  if (slim) y += (HIGH.title - HIGH.foot) / 2;
  return { ...plain, height: y + BOTTOM, texts, parts: parts.boxes };
}

/** A part of an attention: a glyph of its mask where it has one, its texts, and the actions that it breaks. */
function chip(box: Box, width: number): Placed {
  const texts: Text[] = [];
  const glyph = box.mask?.length ? { x: 6, y: 6, width: GLYPH, height: GLYPH } : undefined;
  const x = glyph ? 6 + GLYPH + 7 : SIDE;
  const room = width - x - 5;
  let y = 5;
  for (const line of wrapped(box.title, "detail", room)) y = write(texts, line, "detail", "start", x, y, room);
  for (const text of [...(box.lines ?? []), counted(box) && `${counted(box)} parameters`].filter(Boolean))
    for (const line of wrapped(text, "foot", room)) y = write(texts, line, "foot", "start", x, y, room);
  for (const line of crossed(box, brokenActions(box), room)) y = write(texts, line, "broken", "start", x, y, room);
  const height = Math.max(y + 5, glyph ? GLYPH + 12 : 0);
  return { box, round: false, x: 0, y: 0, width, height, texts, parts: [], glyph };
}

const isEnd = ({ kind }: Box): boolean => kind === "input" || kind === "output";

/** "✗ permute, reverse" in lines; "✗ all" where it breaks all actions and there is little room. */
function crossed(box: Box, actions: string[], room: number): string[] {
  if (!actions.length) return [];
  const lines = wrapped(`✗\u00a0${actions.join(", ")}`, "broken", room);
  return lines.length > 2 && actions.length === box.claims?.length ? ["✗\u00a0all"] : lines;
}

/** Append a line of text; returns the y of the next line. */
function write(
  texts: Text[],
  text: string,
  role: keyof typeof HIGH,
  anchor: Text["anchor"],
  x: number,
  y: number,
  room: number,
): number {
  if (text) texts.push({ text, role, anchor, x, y: y + HIGH[role] * 0.76, room });
  return y + HIGH[role];
}

/** What stands in an attention, from the top: on the values, on the scores, on queries and keys; the word for it beside. */
function within(insides: Box[], width: number): { boxes: Placed[]; texts: Text[]; height: number } {
  const [boxes, texts]: [Placed[], Text[]] = [[], []];
  let y = 0;
  for (const { slot, text } of SLOTS) {
    const here = insides.filter((box) => box.slot === slot).reverse(); // what comes first stands lowest
    const label = width > 150 ? LABEL : 0;
    const top = y;
    for (const box of here) {
      boxes.push(shifted(chip(box, width - 2 * SIDE - label), SIDE + label, y));
      y += boxes.at(-1)!.height + BETWEEN;
    }
    if (here.length && label)
      texts.push({ text, role: "slot", anchor: "start", x: SIDE, y: (top + y - BETWEEN) / 2 + 4, room: label });
  }
  return { boxes, texts, height: y };
}

/** The same box elsewhere. */
export const shifted = (one: Placed, x: number, y: number): Placed => ({
  ...one,
  ...moved(one, x, y),
  texts: one.texts.map((text) => moved(text, x, y)),
  parts: one.parts.map((part) => shifted(part, x, y)),
  glyph: one.glyph && moved(one.glyph, x, y),
});

export const moved = <P extends Point>(point: P, x: number, y: number): P => ({ ...point, x: point.x + x, y: point.y + y });

// --- what is written -------------------------------------------------------------------------------------------------------
/** The actions to which a box is not equivariant. */
export const brokenActions = (box: Box): string[] => (box.claims ?? []).filter(({ holds }) => !holds).map(({ action }) => action);

/** [N, 512]; nothing for what has no shape of its own. */
export const written = ({ shape }: Box): string => (shape?.length ? `[${shape.join(", ")}]` : "");

/** The parameters of one copy, short. */
export const counted = ({ parameters }: Box): string => (parameters ? short(parameters) : "");

/** 1,048,576 as 1.05 M; small numbers as they are. */
export function short(count: number): string {
  if (count < 10_000) return count.toLocaleString("en");
  const [unit, letter] = [
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([unit]) => count >= Number(unit) * 0.9995) as [number, string];
  return `${Number((count / unit).toPrecision(3))} ${letter}`;
}

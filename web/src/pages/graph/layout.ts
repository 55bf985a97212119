// Positions of nodes and arrows. The first word is at the top; the others follow clockwise.
export type Point = [number, number];

export const angleOf = (place: number, nodes: number): number => -Math.PI / 2 + (2 * Math.PI * place) / nodes;

export const onCircle = ([x, y]: Point, radius: number, angle: number): Point => [
  x + radius * Math.cos(angle),
  y + radius * Math.sin(angle),
];

/** A line, its tip, and the position of a number beside it. */
export interface Arrow {
  line: string;
  tip: string;
  middle: Point;
}

const BEND = 0.11; // of the distance, so that the two directions are two lines
const ALONG = 0.36; // of the arrow's length, where the number stands: near the sender, since many arrows end at one node

/** From one node to another, which both are `gap` away from its ends. size: of the tip. */
export function arrow(from: Point, to: Point, gap: number, size: number): Arrow {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const control: Point = [(from[0] + to[0]) / 2 - dy * BEND, (from[1] + to[1]) / 2 + dx * BEND];
  const start = towards(from, control, gap);
  const end = towards(to, control, gap + size);
  const point = towards(to, control, gap);
  return {
    line: `M${written(start)} Q${written(control)} ${written(end)}`,
    tip: triangle(point, end, size),
    middle: between(start, control, end, ALONG),
  };
}

/** From a node to itself: a loop away from the middle of the picture. */
export function loop(at: Point, angle: number, gap: number, far: number, size: number): Arrow {
  const turn = 0.62;
  const [start, point] = [onCircle(at, gap, angle - turn), onCircle(at, gap, angle + turn)];
  const [first, second] = [onCircle(at, far * 1.32, angle - turn), onCircle(at, far * 1.32, angle + turn)];
  const end = towards(point, second, size);
  return {
    line: `M${written(start)} C${written(first)} ${written(second)} ${written(end)}`,
    tip: triangle(point, end, size),
    middle: onCircle(at, far * 0.92, angle - turn * 1.6), // beside the loop, since the word is beyond it
  };
}

/** Interpolates between two angles on the shorter arc. share: 0 to 1. */
export function turned(from: number, to: number, share: number): number {
  const way = ((((to - from + Math.PI) % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI)) - Math.PI;
  return from + way * share;
}

/** The side of its node on which a word is written. */
export const anchor = (angle: number): "start" | "middle" | "end" =>
  Math.cos(angle) > 0.25 ? "start" : Math.cos(angle) < -0.25 ? "end" : "middle";

function towards(from: Point, to: Point, far: number): Point {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const long = Math.hypot(dx, dy) || 1;
  return [from[0] + (dx / long) * far, from[1] + (dy / long) * far];
}

function triangle(point: Point, base: Point, size: number): string {
  const [dx, dy] = [(point[0] - base[0]) / size, (point[1] - base[1]) / size];
  const half = size * 0.5;
  return `M${written(point)} L${written([base[0] - dy * half, base[1] + dx * half])} L${written([base[0] + dy * half, base[1] - dx * half])} Z`;
}

function between(a: Point, b: Point, c: Point, t: number): Point {
  const mix = (i: 0 | 1) => (1 - t) ** 2 * a[i] + 2 * t * (1 - t) * b[i] + t ** 2 * c[i];
  return [mix(0), mix(1)];
}

const written = ([x, y]: Point): string => `${x.toFixed(1)},${y.toFixed(1)}`;

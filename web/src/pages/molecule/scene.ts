// The scene as plain data: balls, sticks and arrows in Å, drawn by either renderer.
import type { Species } from "../../core/contract";
import type { Three } from "./rotation";

export interface Ball {
  at: Three;
  radius: number;
  colour: string;
}

/** flat: without an outline, so that weights do not look like bonds. */
export interface Stick {
  from: Three;
  to: Three;
  radius: number;
  colour: string;
  flat?: boolean;
}

/** faint: the arrow of an equivariant model, for comparison. */
export interface Arrow {
  from: Three;
  to: Three;
  colour: string;
  faint: boolean;
}

export interface Scene {
  balls: Ball[];
  sticks: Stick[];
  arrows: Arrow[];
}

export const STICK = 0.085; // Å
export const SHAFT = 0.055;
export const TIP = 0.32; // Å, length of an arrow's head at most; it is half as wide
const STRETCH = 1.25; // two atoms are joined where they are no further apart than this times the sum of their radii

export const ballOf = (element: Species): number => 0.12 + 0.36 * element.radius;

/** Pairs of bonded atoms. */
export function bonds(at: Float64Array, radii: number[]): [number, number][] {
  const found: [number, number][] = [];
  for (let i = 0; i < radii.length; i++)
    for (let j = i + 1; j < radii.length; j++) if (relativeError(at, i, j) < STRETCH * (radii[i] + radii[j])) found.push([i, j]);
  return found;
}

export const place = (at: ArrayLike<number>, i: number): Three => [at[3 * i], at[3 * i + 1], at[3 * i + 2]];

export function relativeError(at: ArrayLike<number>, i: number, j: number): number {
  return Math.hypot(at[3 * i] - at[3 * j], at[3 * i + 1] - at[3 * j + 1], at[3 * i + 2] - at[3 * j + 2]);
}

export const between = (a: Three, b: Three, share: number): Three =>
  [0, 1, 2].map((k) => a[k] + share * (b[k] - a[k])) as unknown as Three;

/** Each bond in the colours of its atoms, half and half. */
export function sticks(at: Float64Array, joined: [number, number][], colours: string[]): Stick[] {
  return joined.flatMap(([i, j]) => {
    const [a, b] = [place(at, i), place(at, j)];
    const middle = between(a, b, 0.5);
    if (colours[i] === colours[j]) return [{ from: a, to: b, radius: STICK, colour: colours[i] }];
    return [
      { from: a, to: middle, radius: STICK, colour: colours[i] },
      { from: middle, to: b, radius: STICK, colour: colours[j] },
    ];
  });
}

/** Arrows at the atoms; scale: Å for one unit. Arrows too short to be visible are left out. */
export function arrows(at: Float64Array, ways: Float64Array, scale: number, colour: string, faint: boolean): Arrow[] {
  const result: Arrow[] = [];
  for (let i = 0; i < at.length / 3; i++) {
    const way = place(ways, i);
    if (!(Math.hypot(...way) * scale > 0.06)) continue;
    const from = place(at, i);
    result.push({ from, to: [0, 1, 2].map((k) => from[k] + scale * way[k]) as unknown as Three, colour, faint });
  }
  return result;
}

/** The attention weights of an atom as sticks; their thickness is the weight. */
export function attentionSticks(
  at: Float64Array,
  atom: number,
  weights: ArrayLike<number>,
  colour: (share: number) => string,
): Stick[] {
  const result: Stick[] = [];
  const most = Math.max(...Array.from(weights).filter((_, j) => j !== atom), 1e-12);
  for (let j = 0; j < weights.length; j++) {
    if (j === atom || weights[j] < 0.004) continue;
    result.push({ from: place(at, atom), to: place(at, j), radius: 0.02 + 0.16 * weights[j], colour: colour(weights[j] / most), flat: true }); // prettier-ignore
  }
  return result;
}

/** The projection onto the screen, with some perspective. `reach` is the largest distance from the centre. */
export class View {
  private wide = 1;
  private high = 1;
  readonly distance: number;
  readonly angle: number; // vertical field of view in radians
  constructor(readonly reach: number) {
    this.distance = reach * 4;
    this.angle = 2 * Math.asin(1 / 4);
  }

  size(wide: number, high: number): void {
    [this.wide, this.high] = [wide, high];
  }

  /** The vertical field of view of the camera: the smaller side holds everything. */
  get upright(): number {
    const narrow = Math.min(1, this.wide / this.high);
    return 2 * Math.atan(Math.tan(this.angle / 2) / narrow);
  }

  /** Pixels of one Å at the centre. */
  get scale(): number {
    return this.high / 2 / Math.tan(this.upright / 2) / this.distance;
  }

  /** Pixels from the left and the top, and the magnification relative to the centre. */
  seen([x, y, z]: Three): { x: number; y: number; near: number } {
    const near = this.distance / Math.max(this.distance - z, this.distance / 10);
    return { x: this.wide / 2 + x * this.scale * near, y: this.high / 2 - y * this.scale * near, near };
  }
}

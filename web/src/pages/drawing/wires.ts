// The arrows of a drawing, as points to walk through: up the stream, three into an attention (queries, keys, values), around what
// a residual passes by, from an encoder's last row to all who ask it, and between boxes that share a parameter.
import type { Link } from "../../core/contract";
import type { Placed, Point, Text } from "./boxes";

/** A tower that stands: side is where residuals pass by, 1 to the right. branch: below each box, where a residual leaves. */
export interface Tower {
  side: 1 | -1;
  left: number;
  right: number;
  middle: number;
  content: number;
  boxes: Map<string, Placed>;
  branch: Map<string, number>;
}

/** head: an arrow at its end; dot: a mark where it leaves the stream; letter: what it brings. */
export interface Path {
  points: Point[];
  kind: NonNullable<Link["kind"]>;
  head: boolean;
  dot: boolean;
  letter?: Text;
}

export const LANE = 30; // of a residual
const [FOOT, SPREAD, KEYS, VALUES, SPLIT] = [19, 26, 14, 34, 8];

export const isStream = ({ kind }: Link): boolean => (kind ?? "stream") === "stream";

export function wires(links: Link[], towers: Tower[], between: number): Path[] {
  return links.flatMap((link) => wire(link, links, towers, between));
}

function wire(link: Link, links: Link[], towers: Tower[], between: number): Path[] {
  const [from, to] = [standing(link.source, towers), standing(link.target, towers)];
  switch (link.kind) {
    case "side":
      return [beside(from.one, to.one)];
    case "residual":
      return [around(link, from, to, links)];
    case "source":
      return brought(from, to, between);
    case "tied":
      return [tied(from, to, towers)];
    default:
      return stream(from.one, to.one);
  }
}

interface Standing {
  one: Placed;
  tower: Tower;
}

function standing(id: string, towers: Tower[]): Standing {
  const tower = towers.find(({ boxes }) => boxes.has(id));
  if (!tower) throw new Error(`A link leads to '${id}', but no tower has such a box.`);
  return { one: tower.boxes.get(id)!, tower };
}

const middle = ({ x, width }: Placed): number => x + width / 2;
const centre = ({ y, height }: Placed): number => y + height / 2;
const bottom = ({ y, height }: Placed): number => y + height;

/** Straight up; to or from a row of two by a step aside; into an attention on three feet. */
function stream(from: Placed, to: Placed): Path[] {
  const [x, goal, end] = [middle(from), middle(to), bottom(to)];
  const plain = { kind: "stream", dot: false } as const;
  if (to.round && x !== goal) {
    const edge = goal + Math.sign(x - goal) * (to.width / 2);
    return [{ ...plain, head: true, points: [{ x, y: from.y }, { x, y: centre(to) }, { x: edge, y: centre(to) }] }]; // prettier-ignore
  }
  const turn = x === goal ? [] : [{ x, y: end + SPLIT + FOOT }, { x: goal, y: end + SPLIT + FOOT }]; // prettier-ignore
  const up = [{ x, y: from.y }, ...turn];
  if (to.box.kind !== "attention") {
    const letter = to.box.kind === "cross" ? foot("q", goal, end) : undefined;
    return [{ ...plain, head: true, points: [...up, { x: goal, y: end }], letter }];
  }
  const split = end + FOOT;
  const feet = [-SPREAD, 0, SPREAD].map((by, i) => ({
    ...plain,
    head: true,
    points: by ? [{ x: goal, y: split }, { x: goal + by, y: split }, { x: goal + by, y: end }] : [...up, { x: goal, y: end }], // prettier-ignore
    letter: foot("qkv"[i], goal + by, end),
  }));
  return feet;
}

const foot = (text: string, x: number, end: number): Text => ({
  text,
  role: "letter",
  anchor: "start",
  x: x + 5,
  y: end + 14,
  room: 20,
});

function beside(from: Placed, to: Placed): Path {
  const y = centre(to);
  const left = middle(from) < middle(to);
  const points = left ? [{ x: from.x + from.width, y }, { x: to.x, y }] : [{ x: from.x, y }, { x: to.x + to.width, y }]; // prettier-ignore
  return { kind: "side", head: true, dot: false, points };
}

/** Out of the stream below the first part that it passes by, up its lane, and into the sum. */
function around({ source }: Link, { tower }: Standing, { one: sum }: Standing, links: Link[]): Path {
  const first = links.find((link) => isStream(link) && link.source === source && tower.branch.has(link.target))!;
  const start = tower.branch.get(first.target)!;
  const lane = tower.middle + tower.side * (tower.content / 2 + LANE / 2);
  const [x, y] = [middle(sum), centre(sum)];
  const points = [
    { x, y: start },
    { x: lane, y: start },
    { x: lane, y },
    { x: x + (tower.side * sum.width) / 2, y },
  ];
  return { kind: "residual", head: true, dot: true, points };
}

/** From an encoder's last row over to the next tower: keys and values, one line inside the other, into the side of the box. */
function brought(from: Standing, to: Standing, between: number): Path[] {
  const [x, top] = [middle(from.one), Math.min(...[...from.tower.boxes.values()].map(({ y }) => y)) - 28];
  const lane = from.tower.right + between / 2;
  return [KEYS, VALUES].map((up, outer) => {
    const [start, over, aside] = [x + (outer ? -5 : 5), top - (outer ? 10 : 0), lane + (outer ? 5 : -5)];
    const y = bottom(to.one) - up;
    const points = [{ x: start, y: from.one.y }, { x: start, y: over }, { x: aside, y: over }, { x: aside, y }, { x: to.one.x, y }]; // prettier-ignore
    const letter: Text = { text: "kv"[outer], role: "letter", anchor: "end", x: to.one.x - 18, y: y - 4, room: 20 };
    return { kind: "source", head: true, dot: false, points, letter };
  });
}

/** Along the free side of a tower, or across to the next one. */
function tied(from: Standing, to: Standing, towers: Tower[]): Path {
  const plain = { kind: "tied", head: false, dot: false } as const;
  if (from.tower !== to.tower) {
    const x = (from.tower.right + to.tower.left) / 2;
    const [start, end] = [
      { x: from.one.x + from.one.width, y: centre(from.one) },
      { x: to.one.x, y: centre(to.one) },
    ];
    return { ...plain, points: [start, { x, y: start.y }, { x, y: end.y }, end] };
  }
  const right = towers.length > 1;
  const x = right ? from.tower.right + 8 : from.tower.left - 8;
  const edge = ({ one }: Standing) => ({ x: right ? one.x + one.width : one.x, y: centre(one) });
  const [start, end] = [edge(from), edge(to)];
  return { ...plain, points: [start, { x, y: start.y }, { x, y: end.y }, end] };
}

/** The path with round corners, as SVG writes it. */
export function written(points: Point[], radius = 9): string {
  const parts = [`M${points[0].x},${points[0].y}`];
  for (let i = 1; i < points.length - 1; i++) {
    const [before, here, after] = [points[i - 1], points[i], points[i + 1]];
    const bend = Math.min(radius, length(before, here) / 2, length(here, after) / 2);
    const [start, end] = [towards(here, before, bend), towards(here, after, bend)];
    parts.push(`L${start.x},${start.y}Q${here.x},${here.y} ${end.x},${end.y}`);
  }
  const last = points[points.length - 1];
  return `${parts.join("")}L${last.x},${last.y}`;
}

/** A head at the end of a path, the way it goes. */
export function tip(points: Point[], long = 8, wide = 3.6): string {
  const [before, end] = points.slice(-2);
  const back = towards(end, before, long);
  const [dx, dy] = [((end.y - back.y) / long) * wide, ((back.x - end.x) / long) * wide];
  return `M${end.x},${end.y}L${back.x + dx},${back.y + dy}L${back.x - dx},${back.y - dy}Z`;
}

const length = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y);

const towards = (from: Point, to: Point, by: number): Point => {
  const far = length(from, to) || 1;
  return { x: from.x + ((to.x - from.x) / far) * by, y: from.y + ((to.y - from.y) / far) * by };
};

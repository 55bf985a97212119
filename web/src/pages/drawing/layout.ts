// Where everything of a drawing stands: a pure function of its boxes, its links and the width there is. "stream" links make the
// rows of a tower, from the bottom up, as in the figure of Vaswani et al. 2017; what has no stream joins its row from the side.
import type { Box, Drawing, Frame, Link } from "../../core/contract";
import { type Area, moved, type Placed, type Point, shifted, sized, type Text } from "./boxes";
import { isStream, LANE, type Path, type Tower, wires } from "./wires";

export interface Framed extends Area {
  frame: Frame;
}

export interface Layout {
  width: number;
  height: number;
  boxes: Placed[];
  frames: Framed[];
  paths: Path[];
  texts: Text[];
}

const [PAD, NEST, LABEL, EDGE] = [13, 11, 12, 10]; // inside a frame; from one to the next around it, above it too; around everything
const [WIDEST, NARROWEST, BETWEEN, TWO] = [240, 90, 70, 1.72]; // a box; between towers; two boxes in a row, in boxes
const [GAP, FEET, FIRST, COLUMN] = [25, 22, 44, 14]; // between rows; for q, k, v below a box; the heading; between two in a row

export function layout(drawing: Drawing, available: number): Layout {
  const rows = drawing.towers.map((_, number) => inRows(drawing, number));
  const deep = Math.max(0, ...drawing.frames.map((frame) => around(drawing, frame.outer ?? "").length));
  const between = drawing.towers.length > 1 ? Math.min(BETWEEN, Math.max(30, available * 0.07)) : 0;
  const fixed = drawing.towers.length * (LANE + PAD + 2 * deep * NEST) + between + 2 * EDGE + tiedRoom(drawing);
  const share = rows.reduce((sum, row) => sum + (isWide(row) ? TWO : 1), 0);
  const wide = Math.min(WIDEST, Math.max(NARROWEST, (available - fixed) / share));
  const out: Layout = { width: 0, height: 0, boxes: [], frames: [], paths: [], texts: [] };
  let x = EDGE + (drawing.towers.length > 1 ? 0 : tiedRoom(drawing));
  const towers = rows.map((row, number): Tower => {
    const side = drawing.towers.length > 1 && number === 0 ? -1 : 1;
    const content = isWide(row) ? wide * TWO : wide;
    const left = x + (side > 0 ? PAD : LANE) + deep * NEST;
    const right = left + content + (side > 0 ? LANE : PAD) + deep * NEST;
    const tower = { side, left: x, right, middle: left + content / 2, content, boxes: new Map(), branch: new Map() } as Tower;
    stack(drawing, row, tower, wide, out);
    out.texts.push({ text: drawing.towers[number], role: "heading", anchor: "middle", x: tower.middle, y: -12, room: content });
    x = right + between;
    return tower;
  });
  out.paths = wires(drawing.links, towers, between);
  const width = x - between + EDGE + (drawing.towers.length > 1 ? tiedRoom(drawing) : 0);
  return fromTop(out, width, (box) => drawing.boxes.indexOf(box));
}

// --- rows --------------------------------------------------------------------------------------------------------------
interface Row {
  boxes: Box[];
  beside?: Box;
}

/** The rows of a tower from the bottom up. */
export function inRows(drawing: Drawing, number: number): Row[] {
  const boxes = drawing.boxes.filter((box) => (box.tower ?? 0) === number && !box.inside);
  const links = drawing.links.filter(({ source }) => boxes.some(({ id }) => id === source));
  const beside = new Map(links.filter(isSide).map(({ source, target }) => [target, boxes.find(({ id }) => id === source)!]));
  const joining = new Set(beside.values());
  const level = new Map<string, number>();
  const rows: Row[] = [];
  for (const box of boxes.filter((box) => !joining.has(box))) {
    const below = links.filter((link) => isStream(link) && link.target === box.id).map(({ source }) => level.get(source)!);
    const here = below.length ? Math.max(...below) + 1 : 0;
    level.set(box.id, here);
    rows[here] ??= { boxes: [] };
    rows[here].boxes.push(box);
    rows[here].beside ??= beside.get(box.id);
  }
  return rows;
}

const isSide = ({ kind }: Link): boolean => kind === "side";
const isWide = (rows: Row[]): boolean => rows.some(({ boxes }) => boxes.length > 1);
const tiedRoom = (drawing: Drawing): number => (drawing.links.some(({ kind }) => kind === "tied") ? 14 : 0);

/** A frame and those around it, from the outside in. */
function around(drawing: Drawing, id: string): Frame[] {
  const frame = drawing.frames.find((f) => f.id === id);
  return frame ? [...around(drawing, frame.outer ?? ""), frame] : [];
}

/** Levels of frames inside a frame. */
const inner = (drawing: Drawing, frame: Frame): number =>
  Math.max(0, ...drawing.frames.filter((f) => f.outer === frame.id).map((f) => inner(drawing, f) + 1));

/** Put the rows of a tower on one another, from y = 0 up, with the frames around them. */
function stack(drawing: Drawing, rows: Row[], tower: Tower, wide: number, out: Layout): void {
  const { middle, content, side } = tower;
  const open: Framed[] = [];
  let y = -FIRST;
  const close = (until: number) => {
    for (let first = true; open.length > until; first = false) {
      y -= first ? PAD : NEST + LABEL;
      const frame = open.pop()!;
      frame.height = frame.y - y;
      frame.y = y;
      out.frames.push(frame);
    }
  };
  const begin = (frame: Frame) => {
    const more = inner(drawing, frame) * NEST;
    const [left, right] = side > 0 ? [PAD, LANE] : [LANE, PAD];
    y -= NEST;
    open.push({ frame, x: middle - content / 2 - left - more, y, width: content + left + right + 2 * more, height: 0 });
  };
  rows.forEach(({ boxes, beside }, level) => {
    const chain = around(drawing, boxes[0].frame ?? "");
    const same = chain.filter((frame, i) => open[i]?.frame === frame).length;
    close(same);
    for (const frame of chain.slice(same)) begin(frame);
    const feet = boxes.some(({ kind }) => kind === "attention") || boxes.length > 1 ? FEET : 0;
    if (level) y -= GAP + feet;
    const width = boxes.length > 1 ? (content - COLUMN) / 2 : Math.min(content, wide);
    const own = boxes.map((box) => sized(box, inside(drawing, box), width));
    const joined = beside && sized(beside, [], content / 2 + LANE - (content < 160 ? 26 : 36));
    const height = Math.max(...own.map((one) => one.height), joined?.height ?? 0);
    own.forEach((one, i) => {
      const x = boxes.length > 1 ? middle - content / 2 + i * (width + COLUMN) : middle - one.width / 2;
      tower.branch.set(one.box.id, y + feet + GAP * 0.6);
      keep(shifted(one, x, boxes.length > 1 ? y - one.height : y - (height + one.height) / 2), tower, out);
    });
    if (joined) {
      const edge = side * (content / 2 + LANE - 4);
      keep(shifted(joined, middle + edge - (side > 0 ? joined.width : 0), y - (height + joined.height) / 2), tower, out);
    }
    y -= height;
  });
  close(0);
}

const inside = (drawing: Drawing, { id }: Box): Box[] => drawing.boxes.filter((box) => box.inside === id);

function keep(one: Placed, tower: Tower, out: Layout): void {
  tower.boxes.set(one.box.id, one);
  out.boxes.push(one, ...one.parts);
}

/** The same layout with y growing from 0 at the top, and boxes in the order of the stream, which Tab follows. */
function fromTop(out: Layout, width: number, order: (box: Box) => number): Layout {
  const top = Math.min(
    ...out.boxes.map(({ y }) => y),
    ...out.frames.map(({ y }) => y),
    ...out.paths.flatMap(({ points }) => points.map(({ y }) => y)),
  );
  const by = EDGE - top + 4;
  const down = <P extends Point>(point: P): P => moved(point, 0, by);
  return {
    width,
    height: by,
    boxes: out.boxes.map((one) => ({ ...shifted(one, 0, by), parts: [] })).sort((a, b) => order(a.box) - order(b.box)),
    frames: out.frames.map(down),
    paths: out.paths.map((path) => ({ ...path, points: path.points.map(down), letter: path.letter && down(path.letter) })),
    texts: out.texts.map(down),
  };
}

// The drawing as SVG: boxes that can be reached and opened by keyboard, in the order of the stream, and arrows between them.
import type { Box, Drawing } from "../../core/contract";
import { h, svg } from "../../core/dom";
import { counted, brokenActions, type Placed, SIZE, type Text, wideAs } from "./boxes";
import { type Layout, layout } from "./layout";
import { type Path, tip, written as line } from "./wires";

/** The picture for a width; open is called with the box that a person chooses. */
export function picture(drawing: Drawing, available: number, open: (box: Box) => void): HTMLElement {
  const placed = layout(drawing, available);
  const root = svg("svg.architecture", {
    viewBox: `0 0 ${placed.width} ${placed.height}`,
    width: placed.width,
    height: placed.height,
    role: "group",
    "aria-label": `${drawing.summary} The drawing goes from the bottom up. Arrow keys move between boxes, Enter opens one.`,
  });
  root.append(
    ...[...placed.frames]
      .sort((a, b) => b.width - a.width)
      .map(({ frame, x, y, width, height }) =>
        svg("g.frame", svg("title", frame.title), svg("rect", { x, y, width, height, rx: 16 })),
      ),
    ...placed.paths.map(path),
    ...placed.frames.map((frame) => repeated(frame)),
    ...placed.boxes.map((one) => (one.round ? sum(one) : node(one, drawing, open))),
    ...placed.texts.map(text),
  );
  root.addEventListener("keydown", (event) => walk(event, root, placed));
  return h("div.scroll", root);
}

/** Mark the open box, and the boxes that are not equivariant to the chosen action. */
export function mark(root: ParentNode, drawing: Drawing, box: string, action: string): void {
  const broken = new Set(drawing.claims.find((stand) => stand.action === action)?.boxes);
  root.querySelector("svg.architecture")?.classList.toggle("through", !!action);
  for (const one of root.querySelectorAll<SVGElement>("svg.architecture .box")) {
    const id = one.dataset.box!;
    one.classList.toggle("not-equivariant", broken.has(id));
    one.setAttribute("aria-pressed", String(id === box));
  }
}

function path({ points, kind, head, dot, letter }: Path): SVGElement {
  const [start] = points;
  return svg(
    `g.wire.${kind}`,
    svg("path", { d: line(points) }),
    head && svg("path.tip", { d: tip(points) }),
    dot && svg("circle", { cx: start.x, cy: start.y, r: 2.6 }),
    letter && text(letter),
  );
}

/** "6 ×" on the upper edge of a frame. */
function repeated({ frame, x, y }: Layout["frames"][number]): SVGElement {
  const label = `${frame.repeat} ×`;
  const width = wideAs(label, "repeat") + 18;
  return svg(
    "g.repeat",
    svg("title", frame.title),
    svg("rect", { x: x + 12, y: y - 11, width, height: 22, rx: 11 }),
    text({ text: label, role: "repeat", anchor: "middle", x: x + 12 + width / 2, y: y + 4.5, room: width }),
  );
}

function sum({ box, x, y, width }: Placed): SVGElement {
  const [cx, cy, r] = [x + width / 2, y + width / 2, width / 2];
  const sign =
    box.kind === "join" ? `M${cx - 2.5},${cy - 5} v10 M${cx + 2.5},${cy - 5} v10` : `M${cx - 5},${cy} h10 M${cx},${cy - 5} v10`;
  return svg("g.round", svg("title", box.about || box.title), svg("circle", { cx, cy, r }), svg("path", { d: sign }));
}

function node(one: Placed, drawing: Drawing, open: (box: Box) => void): SVGElement {
  const { box, x, y, width, height, texts, glyph } = one;
  return svg(
    box.inside ? "g.box.part" : "g.box",
    {
      "data-box": box.id,
      "data-kind": box.kind,
      role: "button",
      tabindex: 0,
      "aria-pressed": "false",
      "aria-label": spoken(one, drawing),
      onclick: () => open(box),
      onkeydown: (event: KeyboardEvent) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open(box);
      },
    },
    svg("rect", { x, y, width, height, rx: box.inside ? 7 : box.kind === "input" || box.kind === "output" ? height / 2.4 : 11 }),
    glyph &&
      svg(
        "g.glyph",
        (box.mask ?? []).flatMap((row, r) => row.map((may, c) => cell(glyph.x, glyph.y, glyph.width / row.length, r, c, may))),
      ),
    texts.flatMap((one) => [text(one), " "]),
  );
}

const cell = (x: number, y: number, side: number, row: number, column: number, may: boolean): SVGElement =>
  svg(may ? "rect.may" : "rect.not", { x: x + column * side, y: y + row * side, width: side - 0.8, height: side - 0.8, rx: 0.8 });

/** A text, compressed where it is wider than its room. */
const text = ({ text, role, anchor, x, y, room }: Text): SVGElement =>
  svg(
    `text.${role}`,
    {
      x,
      y,
      "text-anchor": anchor,
      "font-size": SIZE[role],
      ...(wideAs(text, role) > room + 6 ? { textLength: room, lengthAdjust: "spacingAndGlyphs" } : {}),
    },
    text,
  );

/** The description of a box for a screen reader: its text, its tower and number of instances, its equivariances. */
export function spoken({ box, texts }: Placed, drawing: Drawing): string {
  const kept = (box.claims ?? []).filter(({ holds }) => holds).map(({ action }) => action);
  const written = texts.some(({ role }) => role === "broken");
  const times = repeats(box, drawing);
  return [
    texts.map(({ text }) => text).join(", ") + (counted(box) === texts.at(-1)?.text ? " parameters" : ""),
    [drawing.towers.length > 1 ? drawing.towers[box.tower ?? 0] : "", times > 1 ? `${times} times` : ""].filter(Boolean).join(", "),
    kept.length ? `equivariant to ${kept.join(", ")}` : "",
    brokenActions(box).length && !written ? `not equivariant to ${brokenActions(box).join(", ")}` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

/** The number of instances of a box in the model. */
export function repeats(box: Box, drawing: Drawing): number {
  let [times, id] = [1, box.frame ?? ""];
  for (let frame; (frame = drawing.frames.find((f) => f.id === id)); id = frame.outer ?? "") times *= frame.repeat;
  return times;
}

/** Arrow keys move to the nearest box in their direction. */
function walk(event: KeyboardEvent, root: SVGElement, { boxes }: Layout): void {
  const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  const here = boxes.find(({ box }) => box.id === (event.target as SVGElement).dataset?.box);
  if (!way || !here) return;
  event.preventDefault();
  const to = nearest(
    here,
    boxes.filter(({ round }) => !round),
    way,
  );
  if (to) root.querySelector<SVGElement>(`[data-box="${CSS.escape(to.box.id)}"]`)?.focus();
}

/** The nearest box in a direction, by distance plus twice the sideways offset. Tab reaches the parts of a box. */
export function nearest(here: Placed, boxes: Placed[], [dx, dy]: number[]): Placed | undefined {
  const cost = (one: Placed): number => {
    const [x, y] = [one.x + one.width / 2 - here.x - here.width / 2, one.y + one.height / 2 - here.y - here.height / 2];
    const [widths, heights] = [(one.width + here.width) / 2, (one.height + here.height) / 2];
    const [gap, aside] = dx ? [x * dx - widths, Math.abs(y)] : [y * dy - heights, Math.abs(x)];
    return gap > -1 ? gap + 2 * aside : Infinity;
  };
  const found = boxes.map((one) => ({ one, far: cost(one) }));
  const best = found.reduce((a, b) => (b.far < a.far ? b : a), { one: here, far: Infinity });
  return best.far < Infinity ? best.one : undefined;
}

// The steps as a data-flow graph of the program. A box links to its matrix.
import { h, svg } from "../core/dom";
import type { StepRecord, ProgramRecord } from "../core/contract";
import { symbolOf } from "../core/names";

const [WIDE, HIGH, COLUMN, ROW, ARCH] = [50, 26, 70, 40, 26];
const LETTERS = 7; // of a text that fits its box
const [NARROW, SMALLEST] = [900, 0.72]; // in a narrower window it scrolls, so that texts can be read

interface Box {
  id: string;
  text: string;
  label: string;
  level: number;
  row: number;
  given: boolean;
}

/** The steps that lead to these outputs, each step one level to the right of the last thing it needs. */
export function graph(programRecord: ProgramRecord, outputs: string[], go: (id: string) => void): HTMLElement {
  const boxes = layout(programRecord, outputs);
  const [levels, rows] = [Math.max(...boxes.map((b) => b.level)) + 1, Math.max(...boxes.map((b) => b.row)) + 1];
  const [width, height] = [levels * COLUMN, rows * ROW + ARCH];
  const picture = svg("svg.graph", {
    viewBox: `0 ${-ARCH} ${width} ${height}`,
    style: `max-width:${width}px; min-width:${Math.min(width, Math.max(NARROW, width * SMALLEST))}px`,
    role: "group",
    "aria-label": "steps of the computation, from left to right",
  });
  const by = new Map(boxes.map((box) => [box.id, box]));
  for (const step of programRecord.steps)
    for (const input of step.inputs) if (by.has(step.id) && by.has(input)) picture.append(edge(by.get(input)!, by.get(step.id)!));
  for (const box of boxes) picture.append(node(box, go));
  return h("div.scroll", picture);
}

function layout(programRecord: ProgramRecord, outputs: string[]): Box[] {
  const steps = new Map(programRecord.steps.map((step) => [step.id, step]));
  const wanted = new Set(outputs.flatMap((output) => [...ancestors(steps, output)]));
  const level = new Map<string, number>();
  for (const step of programRecord.steps) {
    if (wanted.has(step.id)) level.set(step.id, 1 + Math.max(...step.inputs.map((input) => level.get(input) ?? 0)));
  }
  for (const leaf of programRecord.leaves) {
    const users = programRecord.steps.filter((step) => wanted.has(step.id) && step.inputs.includes(leaf.id));
    if (users.length) level.set(leaf.id, leaf.kind === "content" ? 0 : Math.min(...users.map((step) => level.get(step.id)!)) - 1);
  }
  const taken = new Map<number, number>();
  const named = [
    ...programRecord.leaves.filter((l) => l.kind === "content"),
    ...programRecord.steps,
    ...programRecord.leaves.filter((l) => l.kind !== "content"),
  ];
  return named
    .filter(({ id }) => level.has(id))
    .map((found) => {
      const at = level.get(found.id)!;
      const row = taken.get(at) ?? 0;
      taken.set(at, row + 1);
      return { id: found.id, text: symbolOf(found, programRecord), label: found.label, level: at, row, given: !("op" in found) };
    });
}

export function ancestors(steps: Map<string, StepRecord>, output: string): Set<string> {
  const seen = new Set([output]);
  for (const id of seen) for (const input of steps.get(id)?.inputs ?? []) seen.add(input);
  return seen;
}

const middle = (box: Box): [number, number] => [box.level * COLUMN + WIDE / 2 + 8, box.row * ROW + HIGH / 2 + 6];

/** To the next column a curve; further along its own row, then a curve; within one row over the boxes between. */
function edge(from: Box, to: Box): SVGElement {
  const [[x1, y1], [x2, y2]] = [middle(from), middle(to)];
  const [start, end] = [x1 + WIDE / 2, x2 - WIDE / 2];
  if (from.row === to.row && to.level - from.level > 1) {
    const top = y1 - HIGH / 2;
    return svg("path.edge", { d: `M${x1},${top} C${x1 + 14},${top - ARCH} ${x2 - 14},${top - ARCH} ${x2},${top}` });
  }
  const turn = Math.max(start, end - (COLUMN - WIDE) * 1.6);
  const bend = (end - turn) / 2;
  return svg("path.edge", { d: `M${start},${y1} H${turn} C${turn + bend},${y1} ${end - bend},${y2} ${end},${y2}` });
}

function node(box: Box, go: (id: string) => void): SVGElement {
  const [x, y] = middle(box);
  const press = () => go(box.id);
  return svg(
    box.given ? "g.node.given" : "g.node",
    {
      tabindex: 0,
      role: "link",
      "aria-label": `${box.text.replace("_", "")}: ${box.label}`,
      onclick: press,
      onkeydown: (event: KeyboardEvent) => event.key === "Enter" && press(),
    },
    svg("title", box.label || box.text),
    svg("rect", { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: box.given ? 3 : 9 }),
    svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central", ...squeezed(box.text) }, lettered(box.text)),
  );
}

/** A text that would stand over its box is set as wide as the box. */
const squeezed = (text: string): Record<string, unknown> =>
  text.replace("_", "").length > LETTERS ? { textLength: WIDE - 8, lengthAdjust: "spacingAndGlyphs" } : {};

function lettered(text: string): (string | SVGElement)[] {
  const [base, under] = text.split("_");
  return under ? [base, svg("tspan", { dy: 4, "font-size": 9 }, under)] : [base];
}

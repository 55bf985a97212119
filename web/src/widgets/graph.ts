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
  const named = [
    ...programRecord.leaves.filter((l) => l.kind === "content"),
    ...programRecord.steps,
    ...programRecord.leaves.filter((l) => l.kind !== "content"),
  ].filter(({ id }) => level.has(id));
  const links = programRecord.steps.flatMap(({ id, inputs }) => inputs.map((input): [string, string] => [input, id]));
  const row = rows(new Map(named.map(({ id }) => [id, level.get(id)!])), links.filter((link) => link.every((id) => level.has(id)))); // prettier-ignore
  return named.map((found) => ({
    id: found.id,
    text: symbolOf(found, programRecord),
    label: found.label,
    level: level.get(found.id)!,
    row: row.get(found.id)!,
    given: !("op" in found),
  }));
}

const SWEEPS = 8; // through all columns, forth and back

/** The row of each box in its column. Boxes are sorted by the mean row of their neighbours (Sugiyama, Tagawa & Toda 1981), forth and
 * back; of all orders on the way the one with the fewest crossings is taken. */
export function rows(level: Map<string, number>, links: [string, string][]): Map<string, number> {
  const columns: string[][] = [];
  for (const [id, at] of level) (columns[at] ??= []).push(id);
  let row = new Map(columns.flatMap((column) => column.map((id, i): [string, number] => [id, i])));
  const beside = new Map([...level.keys()].map((id) => [id, links.flatMap(([a, b]) => (a === id ? [b] : b === id ? [a] : []))]));
  let best = { row, crossings: crossings(level, row, links) };
  for (let sweep = 0; sweep < SWEEPS && best.crossings; sweep++) {
    row = new Map(row);
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const mean = new Map(column.map((id) => [id, average(beside.get(id)!.map((other) => row.get(other)!), row.get(id)!)])); // prettier-ignore
      let last = -Infinity;
      for (const id of column.sort((a, b) => mean.get(a)! - mean.get(b)!)) {
        last = Math.max(last + 1, Math.round(mean.get(id)!));
        row.set(id, last);
      }
    }
    const top = Math.min(...row.values());
    row = new Map([...row].map(([id, at]) => [id, at - top]));
    const found = crossings(level, row, links);
    if (found < best.crossings) best = { row, crossings: found };
  }
  return best.row;
}

const average = (numbers: number[], otherwise: number): number =>
  numbers.length ? numbers.reduce((sum, value) => sum + value, 0) / numbers.length : otherwise;

/** How many pairs of links cross, drawn as straight lines. */
export function crossings(level: Map<string, number>, row: Map<string, number>, links: [string, string][]): number {
  const lines = links.map((link) => link.map((id) => [level.get(id)!, row.get(id)!]));
  const side = ([px, py]: number[], [qx, qy]: number[], [rx, ry]: number[]) => Math.sign((qx - px) * (ry - py) - (qy - py) * (rx - px)); // prettier-ignore
  let found = 0;
  lines.forEach(([a, b], i) =>
    lines.slice(0, i).forEach(([c, d], j) => {
      const apart = !links[i].some((id) => links[j].includes(id));
      if (apart && side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0) found++;
    }),
  );
  return found;
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

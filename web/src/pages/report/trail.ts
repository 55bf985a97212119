// Where it breaks: all modules in call order as a tree, each with the error of its output. Similar siblings are folded, so that a model
// with hundreds of modules stays readable.
import { above, percent, rules, upright } from "../../charts/column";
import type { Mark, Row } from "../../core/contract";
import { button, h, svg } from "../../core/dom";
import { error } from "../../core/format";
import { errorScale } from "./scale";

const [MANY, AROUND] = [8, 2]; // more siblings than this fold, but for the first, the last, and those around the culprit

/** A module, named as in its parent. `holds`: whether it is the culprit or contains it. */
export interface Node {
  mark: Mark;
  name: string;
  parts: Node[];
  holds: boolean;
}

/** The modules as a tree. A trail lists modules as they return, so children come before their parent; a module may occur twice. */
export function tree(trail: Mark[], where: string): Node[] {
  let waiting: Node[] = [];
  trail.forEach((mark, i) => {
    const whole = i === trail.length - 1 && !waiting.some(({ mark: part }) => part.module.startsWith(`${mark.module}.`));
    let first = waiting.length;
    while (first > 0 && (whole || waiting[first - 1].mark.module.startsWith(`${mark.module}.`))) first--;
    const parts = waiting.slice(first);
    if (!whole) for (const part of parts) part.name = part.mark.module.slice(mark.module.length + 1);
    const here = mark.module === where;
    waiting = [...waiting.slice(0, first), { mark, name: mark.module, parts, holds: here || parts.some(({ holds }) => holds) }];
  });
  return waiting;
}

/** Without modules that cannot be compared, unless they have children that can, or are the culprit. */
export const comparable = (nodes: Node[], where: string): Node[] =>
  nodes
    .map((node) => ({ ...node, parts: comparable(node.parts, where) }))
    .filter(({ mark, parts }) => (mark.error ?? null) !== null || parts.length || mark.module === where);

export const count = (nodes: Node[]): number => nodes.reduce((sum, { parts }) => sum + 1 + count(parts), 0);

/** The visible siblings, and between them those that are folded into one row. */
export function folded(nodes: Node[]): (Node | Node[])[] {
  if (nodes.length <= MANY) return nodes;
  const culprit = nodes.findIndex(({ holds }) => holds);
  const shown = (i: number) => i < 1 || i >= nodes.length - AROUND || (culprit >= 0 && Math.abs(i - culprit) <= AROUND);
  const found: (Node | Node[])[] = [];
  let run: Node[] = [];
  const close = () => {
    found.push(...(run.length > 1 ? [run] : run));
    run = [];
  };
  nodes.forEach((node, i) => {
    if (!shown(i)) return void run.push(node);
    close();
    found.push(node);
  });
  close();
  return found;
}

/** The trail as a table with a row for each module; buttons open children and folds. */
export function trail(row: Row, tolerance: number): HTMLElement {
  const where = row.where ?? "";
  const all = tree(row.trail ?? [], where);
  const roots = comparable(all, where);
  const opened = new Map<string, boolean>(); // by path in the tree
  const body = h("tbody");
  const isOpen = (node: Node, key: string, depth: number) =>
    opened.get(key) ?? (depth === 0 ? node.holds || roots.length === 1 : node.holds && node.mark.module !== where);

  const opener = (key: string, now: boolean, text: string, title: string) =>
    button(text, title, () => draw(key, !now), { class: "opener", "aria-expanded": String(now), "data-key": key });
  const line = (node: Node, key: string, depth: number, now: boolean): HTMLElement => {
    const culprit = node.mark.module === where;
    const known = node.parts.length
      ? opener(key, now, node.name, `${node.mark.module}: ${count(node.parts)} submodules`)
      : h("span", { title: node.mark.module }, node.name);
    return h(
      culprit ? "tr.culprit" : "tr",
      { "data-module": node.mark.module },
      h("th", indented(depth), known, culprit && h("b.here", "breaks here")),
      h("td.plotted", dot(node.mark, row, tolerance, culprit)),
      h("td.value", value(node.mark.error)),
    );
  };
  const more = (nodes: Node[], key: string, depth: number, now: boolean): HTMLElement => {
    const known = nodes.map(({ mark }) => mark.error ?? null).filter((e): e is number => e !== null);
    const ends = known.length ? [Math.min(...known), Math.max(...known)].map(value) : [];
    return h(
      "tr.more",
      h("th", indented(depth), opener(key, now, `${nodes.length} more`, `${nodes[0].name} to ${nodes.at(-1)!.name}`)),
      h("td.plotted", span(now ? [] : known, row)),
      h("td.value", now ? "" : [...new Set(ends)].join(" to ")),
    );
  };
  const lined = (nodes: Node[], key: string, depth: number): HTMLElement[] =>
    folded(nodes).flatMap((one) => {
      if (!Array.isArray(one)) return walked(one, `${key}.${nodes.indexOf(one)}`, depth);
      const folds = `${key}+${nodes.indexOf(one[0])}`;
      const now = opened.get(folds) ?? false;
      const inside = one.flatMap((node) => walked(node, `${key}.${nodes.indexOf(node)}`, depth));
      return [more(one, folds, depth, now), ...(now ? inside : [])];
    });
  const walked = (node: Node, key: string, depth: number): HTMLElement[] => {
    const now = node.parts.length > 0 && isOpen(node, key, depth);
    return [line(node, key, depth, now), ...(now ? lined(node.parts, key, depth + 1) : [])];
  };
  const draw = (key?: string, now = false) => {
    if (key) opened.set(key, now);
    body.replaceChildren(...lined(roots, "", 0));
    if (key) body.querySelector<HTMLElement>(`[data-key="${key}"]`)?.focus();
  };
  draw();
  const left = count(all) - count(roots);
  return h(
    "div",
    h(
      "table.trail",
      h("caption.spoken", "Error of the output of each module, in call order"),
      h("thead", h("tr", h("th", { scope: "col" }, "module"), h("th.plotted", { scope: "col" }, above(errorScale)), h("th.value", { scope: "col" }, "error"))), // prettier-ignore
      body,
    ),
    left > 0 && h("p.quiet", `${left} module${left > 1 ? "s are" : " is"} left out: their outputs cannot be compared.`),
  );
}

const indented = (depth: number) => ({ scope: "row", style: `--depth:${Math.min(depth, 5)}` });

const value = (found?: number | null): string => (found === null || found === undefined ? "–" : error(found));

function dot(mark: Mark, row: Row, tolerance: number, culprit: boolean): SVGElement {
  const x = (mark.error ?? null) === null ? undefined : percent(errorScale.place(mark.error!));
  return svg(
    "svg.errors",
    { width: "100%", height: "100%", "aria-hidden": "true" },
    row.floor ? svg("rect.floor", { x: 0, y: 0, height: "100%", width: percent(errorScale.place(row.floor)) }) : null,
    rules(errorScale),
    upright("line.tolerance", errorScale, tolerance),
    x && svg("line.stem", { x1: 0, x2: x, y1: "50%", y2: "50%" }),
    x && svg(culprit ? "circle.worst" : "circle", { cx: x, cy: "50%", r: culprit ? 5.5 : 3.5 }),
  );
}

function span(known: number[], row: Row): SVGElement | null {
  if (!known.length) return null;
  const [from, to] = [Math.min(...known), Math.max(...known)].map(errorScale.place);
  return svg(
    "svg.errors",
    { width: "100%", height: "100%", "aria-hidden": "true" },
    row.floor ? svg("rect.floor", { x: 0, y: 0, height: "100%", width: percent(errorScale.place(row.floor)) }) : null,
    rules(errorScale),
    svg("line.span", { x1: percent(from), x2: percent(to + 0.5), y1: "50%", y2: "50%" }),
  );
}

// Word alignment from cross-attention: each target word is linked to the source word that it attends to most, as lines between two
// rows of words and as a grid, for one head, the mean of a layer's heads, or the mean of all layers.
import { digits } from "../../core/format";
import type { CrossAlignment, Heads, Predictions } from "../../core/contract";
import { button, h, select, svg } from "../../core/dom";
import { part } from "../../core/tensor";
import { segmentedControl, type View } from "./detail";
import type { HeadsState } from "./state";
import { direction, named, visible } from "../../core/labels";
import { attentionMap } from "./attention_map";
import { headName } from "./mosaic";
import type { HeadsPage } from "./page";
import { fitted } from "../../charts/canvas";
import { predictionsAt } from "./predictions";
import { Attention, largest, NONE } from "./weights";

const [FAINT, NEAR] = [0.02, 1]; // weights that are not drawn; words beside the diagonal that count as on it

/** Weights [N, M] of target rows on source columns, and their labels. */
export interface Links {
  weights: Float64Array;
  targets: string[];
  sources: string[];
}

/** Merge subwords into words: weights on the subwords of a key word are added, those of a query word averaged (Clark et al. 2019). */
export function mergeWords({ weights, targets, sources }: Links, rows: number[], columns: number[]): Links {
  const [down, across] = [ranked(rows), ranked(columns)];
  const counts = down.count.map((_, word) => down.of.filter((one) => one === word).length);
  const result = new Float64Array(down.count.length * across.count.length);
  for (let n = 0; n < targets.length; n++)
    for (let m = 0; m < sources.length; m++)
      result[down.of[n] * across.count.length + across.of[m]] += weights[n * sources.length + m] / counts[down.of[n]];
  const together = (labels: string[], { of, count }: Ranked) => count.map((_, word) => labels.filter((__, i) => of[i] === word).join("")); // prettier-ignore
  return { weights: result, targets: together(targets, down), sources: together(sources, across) };
}

interface Ranked {
  of: number[]; // of each token its word
  count: number[]; // one a word
}

/** The words renumbered from 0 without gaps. */
function ranked(words: number[]): Ranked {
  const known = [...new Set(words)];
  return { of: words.map((word) => known.indexOf(word)), count: known };
}

/** The source word with the largest weight, for each target word. */
export const strongest = ({ weights, targets, sources }: Links): number[] =>
  targets.map((_, n) => largest(weights.subarray(n * sources.length, (n + 1) * sources.length)));

/** How many strongest links lie on the diagonal, and how many would by chance. */
export function countDiagonal(links: number[], columns: number): { met: number; chance: number } {
  const step = (columns - 1) / Math.max(1, links.length - 1);
  const beside = (n: number, m: number) => Math.abs(m - n * step) <= NEAR;
  let all = 0;
  links.forEach((_, n) => {
    for (let m = 0; m < columns; m++) if (beside(n, m)) all++;
  });
  return { met: links.filter((m, n) => beside(n, m)).length, chance: all / columns };
}

/** Labels of the rows as outputs: the token that the model predicts at each position. */
export function outputLabels(labels: string[], asks: number, says: Predictions | null | undefined): string[] {
  const last = says?.kind === "next" && says.sequence === asks ? predictionsAt(says, labels.length - 1)[0]?.[0] : undefined;
  return [...labels.slice(1), last ?? "…"];
}

/** The chosen [layer, head]; what is missing is averaged. */
type Chosen = [] | [number] | [number, number];

export function alignmentPanel(page: HeadsPage): { element: HTMLElement; draw(): void } | undefined {
  const groups = page.record.cross_alignments ?? [];
  if (!groups.length) return undefined;
  const { record } = page;
  const status = h("p.notice", { role: "status", hidden: true });
  const choices = h("div.choices.tools");
  const summary = h("output.summary", { "aria-live": "polite" });
  const intro = h("p.lede");
  const order = h("p.quiet.order");
  const [above, below, lines] = [h("div.word-row"), h("div.word-row"), svg("svg", { "aria-hidden": "true" })];
  const field = h("div.aligned", lines, above, below);
  const grid = attentionMap({
    point: (cell) => point(cell && { target: cell[0], source: cell[1] }),
    pick: ([target, source]) => {
      picked = source;
      cell = true;
      page.set({ word: target });
    },
    done: () => undefined,
  });
  const element = h(
    "section.part.alignment",
    { "data-part": "alignment" },
    h("h2", "Word alignment"),
    intro,
    choices,
    status,
    summary,
    field,
    order,
    h("details", { ontoggle: () => redraw() }, h("summary", "As a grid"), grid.element),
  );
  const unfolded = () => element.querySelector("details")!.open;
  let links: Links | undefined;
  let best: number[] = [];
  let cursor: { target?: number; source?: number } | undefined;
  let [picked, cell]: [number | undefined, boolean] = [undefined, false]; // the chosen source word; whether a target is chosen with it
  let [key, wanted] = ["", ""];
  let view: View | undefined;

  const group = (): CrossAlignment => groups.find(({ layers }) => layers.includes(page.state.align[0] ?? -1)) ?? groups[0];
  /** The selection; a single head where the record has no means. */
  const selection = (): Chosen => {
    const { align: asked } = page.state;
    const one = group();
    const known = asked.length && one.layers.includes(asked[0]);
    const own = known ? asked : [];
    if (one.weights || own.length === 2) return own as Chosen;
    return [own[0] ?? one.layers[0], 0];
  };

  function draw(): void {
    const { whole, rows } = page.state;
    const now = JSON.stringify([page.state.align, whole, rows]);
    if (now === key && links) return paint();
    const [layer, head] = selection();
    const weights = head === undefined && group().weights ? meanWeights(group(), layer) : undefined;
    wanted = now;
    controls();
    if (weights) return show(now, weights);
    const given = page.more.ready(layer!, head!);
    if (given) return show(now, matrix(new Attention(given, NONE)));
    status.hidden = false;
    status.textContent = page.more.has(layer!) ? "Loading the tensors of this head …" : record.layers[layer!].reason || "The record has no tensors of this head."; // prettier-ignore
    if (page.more.has(layer!))
      page.more.get(layer!, head!).then(
        (found) => found && wanted === now && draw(),
        (error: Error) => wanted === now && (status.textContent = error.message),
      );
  }

  function show(now: string, weights: Float64Array): void {
    const { query_sequence: asks, key_sequence: answers } = group();
    const [who, whom] = [record.sequences[asks], record.sequences[answers]];
    const { whole } = page.state;
    const input = page.state.rows === "input";
    intro.textContent = `Each ${who.name || "target"} word is linked to the ${whom.name || "source"} word that it attends to most.`;
    status.hidden = true;
    key = now;
    links = { weights, targets: input ? who.labels : outputLabels(who.labels, asks, record.predictions), sources: whom.labels };
    const [rows, columns] = [who.words ?? [], whom.words ?? []];
    if (whole && rows.length && columns.length)
      links = mergeWords(links, input ? rows : [...rows.slice(1), Math.max(...rows) + 1], columns);
    best = strongest(links);
    cursor = undefined;
    const { met, chance } = countDiagonal(best, links.sources.length);
    const count = best.length;
    order.textContent = `${met} of ${count} strongest links (${Math.round((100 * met) / count)} %) lie within one word of the diagonal; chance level is ${((100 * chance) / count).toFixed(0)} %.`; // prettier-ignore
    view = undefined;
    words();
    paint();
  }

  function controls(): void {
    const one = group();
    const [layer, head] = selection();
    const layers = one.layers.map((at, i) => ({ name: String(at), title: `L${i}` }));
    const all = one.weights ? [{ name: "", title: "mean of all layers" }] : [];
    const heads = layer === undefined ? [] : record.layers[layer].heads.map((_, i) => ({ name: String(i), title: `H${i}` }));
    const mean = one.weights ? [{ name: "", title: "mean of its heads" }] : [];
    const labelOf = (one: Element | null) => one && (one.getAttribute("aria-label") ?? one.textContent);
    const focused = choices.contains(document.activeElement) ? labelOf(document.activeElement) : null;
    const which = select("layer", [...all, ...layers], String(layer ?? ""), (value) => page.set({ align: value === "" ? [] : one.weights ? [Number(value)] : [Number(value), 0] })); // prettier-ignore
    const own = select("head", [...mean, ...heads], String(head ?? ""), (value) => page.set({ align: value === "" ? [layer!] : [layer!, Number(value)] })); // prettier-ignore
    const rows = segmentedControl("target words", [["output", "output words", "A row is labelled with the word that the model predicts there"], ["input", "input words", "A row is labelled with the word that the model reads there"]], (value) => page.set({ rows: value as HeadsState["rows"], word: undefined })); // prettier-ignore
    rows.draw(page.state.rows);
    const pieces = [one.query_sequence, one.key_sequence].every((line) => record.sequences[line].words?.length);
    const join = h<HTMLInputElement>("input", { type: "checkbox", checked: page.state.whole, "aria-label": "whole words", onchange: () => page.set({ whole: join.checked, word: undefined }) }); // prettier-ignore
    const top = mostDiagonal(record, one);
    choices.replaceChildren(
      which,
      ...(layer === undefined ? [] : [own]),
      rows.element,
      ...(pieces ? [h("label.check", { title: "Merge subwords: weights on the subwords of a source word are added, those of a target word averaged" }, join, "whole words")] : []), // prettier-ignore
      ...(top ? [button(`Most diagonal: ${top.name}`, `The largest weight lies on the diagonal in ${top.share.toFixed(2)} of the rows`, () => page.set({ align: [top.layer, top.head] }))] : []), // prettier-ignore
      ...(head === undefined
        ? []
        : [button("Open this head", `Open ${headName(record, layer!, head)}`, () => page.open(layer!, head))]),
    );
    if (focused)
      [...choices.querySelectorAll<HTMLElement>("select, input, button")].find((one) => labelOf(one) === focused)?.focus();
  }

  function words(): void {
    const row = (labels: string[], kind: "target" | "source", place: HTMLElement, title: string) => {
      const press = (i: number) => () => {
        cell = false;
        picked = kind === "source" && picked !== i ? i : undefined;
        if (kind === "target") page.set({ word: i });
        else paint();
      };
      place.replaceChildren(...labels.map((label, i) => h("button.word", { type: "button", "data-i": i, tabindex: i ? -1 : 0, onclick: press(i), onpointerenter: (e: PointerEvent) => e.pointerType !== "touch" && point({ [kind]: i }), onpointerleave: () => point(undefined), onfocus: () => point({ [kind]: i }), onblur: () => point(undefined) }, h("bdi", visible(label.replace(/^ (?=\S)/, ""), i))))); // prettier-ignore
      place.dir = direction(labels);
      place.setAttribute("role", "group");
      place.setAttribute("aria-label", `${title}: arrow keys move`);
      place.onkeydown = (event) => {
        const way = place.dir === "rtl" ? -1 : 1;
        const by = { ArrowLeft: -way, ArrowRight: way, ArrowUp: -1, ArrowDown: 1 }[event.key];
        const at = [...place.children].indexOf(document.activeElement!);
        const next = event.key === "Home" ? 0 : event.key === "End" ? labels.length - 1 : by === undefined ? undefined : at + by;
        if (next === undefined) return;
        event.preventDefault();
        const to = place.children[next] as HTMLElement | undefined;
        if (!to) return;
        for (const one of place.children) (one as HTMLElement).tabIndex = one === to ? 0 : -1;
        to.focus();
      };
    };
    const { query_sequence: asks, key_sequence: answers } = group();
    row(links!.sources, "source", above, record.sequences[answers].name || "source");
    row(links!.targets, "target", below, record.sequences[asks].name || "target");
    lay();
  }

  /** Two rows where they have room, else two columns. */
  function lay(): void {
    field.dataset.way = "rows";
    if (Math.max(above.scrollWidth, below.scrollWidth) > field.clientWidth) field.dataset.way = "columns";
  }

  function point(next: typeof cursor): void {
    if (JSON.stringify(next) === JSON.stringify(cursor)) return;
    cursor = next;
    paint();
  }

  const redraw = () => {
    if (links && field.clientWidth) {
      lay();
      paint();
    }
  };

  function paint(): void {
    if (!links) return;
    const { weights, targets, sources } = links;
    const weight = (n: number, m: number) => weights[n * sources.length + m];
    const target = cursor?.target ?? (cursor?.source === undefined && (cell || picked === undefined) ? page.state.word : undefined);
    const source = cursor?.source ?? (cursor ? undefined : picked);
    const row = target === undefined ? undefined : Math.min(target, targets.length - 1);
    const drawn: [number, number][] = [];
    targets.forEach((_, n) => {
      const shown = row === n ? [...sources.keys()] : row === undefined && source !== undefined ? [source] : [best[n]];
      drawn.push(...shown.filter((m) => m === best[n] || weight(n, m) >= FAINT).map((m): [number, number] => [n, m]));
    });
    const box = field.getBoundingClientRect();
    const rows = field.dataset.way === "rows";
    const middle = (place: Element, end: boolean): [number, number] => {
      const at = place.getBoundingClientRect();
      return rows
        ? [at.left + at.width / 2 - box.left, (end ? at.top : at.bottom) - box.top]
        : [(end ? at.left : at.right) - box.left, at.top + at.height / 2 - box.top];
    };
    lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    lines.replaceChildren(
      ...drawn.map(([n, m]) => {
        const [[x, y], [u, v]] = [middle(above.children[m], false), middle(below.children[n], true)];
        const bend = rows ? `C${x},${(y + v) / 2} ${u},${(y + v) / 2}` : `C${(x + u) / 2},${y} ${(x + u) / 2},${v}`;
        const size = weight(n, m);
        const faded = row === undefined ? source !== undefined && size < FAINT : row !== n;
        return svg("path", { d: `M${x},${y} ${bend} ${u},${v}`, "stroke-width": (1 + 3.5 * size).toFixed(2), opacity: faded ? 0.12 : (0.25 + 0.75 * size).toFixed(2) }); // prettier-ignore
      }),
    );
    const tints = (place: HTMLElement, of: (i: number) => number, here?: number) =>
      [...place.children].forEach((one, i) => {
        (one as HTMLElement).style.setProperty("--tint", String(Math.round(60 * Math.sqrt(of(i)))));
        one.setAttribute("aria-pressed", String(i === here));
      });
    tints(above, (m) => (row === undefined ? 0 : weight(row, m)), source);
    tints(below, (n) => (row === undefined && source !== undefined ? weight(n, source) : 0), row);
    tell(row, source);
    if (!unfolded()) return;
    view ??= viewOf(links, best, group(), record);
    const at = row ?? 0;
    grid.draw(view, at, source ?? best[at]);
  }

  function tell(row: number | undefined, source: number | undefined): void {
    const { weights, targets, sources } = links!;
    const name = (labels: string[], i: number) => named({ name: "", kind: "words", labels }, i);
    if (row !== undefined) {
      const m = source ?? best[row];
      summary.replaceChildren(name(targets, row), m === best[row] ? " attends most to " : " attends to ", name(sources, m), ": ", h("b.value", digits(weights[row * sources.length + m]))); // prettier-ignore
    } else if (source !== undefined) {
      const most = largest(Float64Array.from(targets, (_, n) => weights[n * sources.length + source]));
      const linked = best.filter((m) => m === source).length;
      summary.replaceChildren(name(sources, source), ` has the largest weight for ${linked} target ${linked === 1 ? "word" : "words"}; its largest weight comes from `, name(targets, most), ": ", h("b.value", digits(weights[most * sources.length + source]))); // prettier-ignore
    } else summary.replaceChildren(h("span.quiet", "Point at a word to see its links and their weights."));
  }

  fitted(field, redraw);
  return { element, draw };
}

/** The mean over the heads of a layer, or over all layers. */
export function meanWeights({ layers, weights }: CrossAlignment, layer: number | undefined): Float64Array {
  const [count, rows, columns] = weights!.shape;
  const size = rows * columns;
  if (layer !== undefined) return part(weights!, layers.indexOf(layer) * size, (layers.indexOf(layer) + 1) * size);
  const all = part(weights!, 0, count * size);
  return Float64Array.from({ length: size }, (_, i) => {
    let sum = 0;
    for (let at = i; at < all.length; at += size) sum += all[at];
    return sum / count;
  });
}

function matrix(attention: Attention): Float64Array {
  const { rows, columns } = attention.given;
  const result = new Float64Array(rows * columns);
  for (let n = 0; n < rows; n++) attention.row(n, result.subarray(n * columns, (n + 1) * columns));
  return result;
}

/** The head whose largest weights lie most often on the diagonal. */
function mostDiagonal(record: Heads, { layers }: CrossAlignment) {
  const all = layers.flatMap((layer, i) => record.layers[layer].heads.map(({ diagonal }, head) => ({ layer, head, share: diagonal ?? -1, name: `L${i}H${head}` }))); // prettier-ignore
  const top = all.sort((a, b) => b.share - a.share)[0];
  return top && top.share >= 0 ? top : undefined;
}

function viewOf({ weights, targets, sources }: Links, links: number[], { layers }: CrossAlignment, record: Heads): View {
  const given = { rows: targets.length, columns: sources.length, width: 0, values: 0, scale: 1, causal: false, cap: 0, weights, about: 0 }; // prettier-ignore
  const attention = new Attention(given, NONE);
  const line = (labels: string[]) => ({ name: "", kind: "words" as const, labels });
  return { layer: layers[0], head: 0, found: record.layers[layers[0]], asks: line(targets), answers: line(sources), same: false, now: attention, before: attention, signed: false, links }; // prettier-ignore
}

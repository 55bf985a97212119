// Attention of a fixed example: a thumbnail of every head, one head enlarged with its tokens and numbers.
import type { Sample } from "../../core/contract";
import { h } from "../../core/dom";
import { type Tensor, unpack } from "../../core/tensor";
import { picture } from "./examples";
import { digits } from "../../core/format";
import type { RunPage } from "./page";

const LARGE = 384; // pixels of the enlarged head, at most
const COUNTED = "Layers, heads and positions are counted from 0.";

export interface SampleAttention {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  weights: Tensor;
  queries: string[];
  keys: string[];
  grid?: [number, number]; // of the keys, where one query attends to patches
}

/** The attention of a sample; undefined where its arrays do not fit together. */
export function sampleAttention(sample: Sample): SampleAttention | undefined {
  const weights = sample.attention && unpack(sample.attention);
  if (!weights || weights.shape.length !== 4) return undefined;
  const [layers, heads, rows, columns] = weights.shape;
  const to = sample.source?.length ? sample.source : (sample.tokens ?? []);
  const [r, c] = sample.grid ?? [0, 0];
  const grid: [number, number] | undefined = rows === 1 && r * c === columns && c > 0 ? [r, c] : undefined;
  return { layers, heads, rows, columns, weights, queries: sample.tokens ?? [], keys: to, grid };
}

/** A token with spaces at its ends and line ends written out; its position where it has no text. */
export const visible = (token: string | undefined, place: number): string =>
  token === undefined ? `${place}` : token === "" ? "∅" : token.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ +| +$/g, (s) => "␣".repeat(s.length)); // prettier-ignore

/** The weights of one head as they are drawn: patches in their grid, else one row for each query. */
export function head(
  attn: SampleAttention,
  layer: number,
  which: number,
): { width: number; height: number; weights: Float64Array } {
  const size = attn.rows * attn.columns;
  const begin = (layer * attn.heads + which) * size;
  const [height, width] = attn.grid ?? [attn.rows, attn.columns];
  return { width, height, weights: attn.weights.data.subarray(begin, begin + size) };
}

export function attention(page: RunPage, step: number): HTMLElement[] {
  return page.history.attentionAt(step).flatMap((sample) => {
    const attn = sampleAttention(sample);
    return attn ? [shown(page, sample, attn)] : [];
  });
}

function shown(page: RunPage, sample: Sample, attn: SampleAttention): HTMLElement {
  const [layer, which] = page.state.head ?? [attn.layers - 1, 0];
  const chosen: [number, number] = [Math.min(layer, attn.layers - 1), Math.min(which, attn.heads - 1)];
  return h(
    "div.sample-attention",
    h(
      "div.mosaic",
      { style: `--heads:${attn.heads}`, role: "group", "aria-label": `attention of ${attn.layers} layers with ${attn.heads} heads` }, // prettier-ignore
      h(
        "div.heads",
        { "aria-hidden": "true" },
        h("span"),
        Array.from({ length: attn.heads }, (_, i) => h("span", `H${i}`)),
      ),
      Array.from({ length: attn.layers }, (_, l) => layerRow(page, attn, l, chosen)),
    ),
    h(
      "div.enlarged",
      h("h4", `L${chosen[0]}H${chosen[1]}`, h("span.quiet", `after step ${sample.step.toLocaleString("en")}`)),
      enlarged(page, sample, attn, chosen),
      h("p.quiet", explained(page, sample, attn, head(attn, ...chosen).weights)),
    ),
  );
}

/** How to read the pictures. */
function explained(page: RunPage, sample: Sample, attn: SampleAttention, weights: Float64Array): string {
  if (!attn.grid) {
    const across = (sample.source ?? []).length > 0 ? " of the answer" : "";
    return `Rows are queries${across}, columns are keys; opacity is the square root of the weight. ${COUNTED}`;
  }
  const lit = page.history.picture(sample.prompt) ? " The picture is lit by the square root of the weight." : "";
  return `Attention of “${attn.queries[0] ?? "the read-out"}” to each ${attn.grid[0] > 1 ? "patch" : "position"}. Full colour is the largest weight of the head, here ${digits(largest(weights))}.${lit} ${COUNTED}`;
}

function layerRow(page: RunPage, attn: SampleAttention, layer: number, chosen: [number, number]): HTMLElement {
  return h(
    "div.layer",
    h("span.quiet", { "aria-hidden": "true" }, `L${layer}`),
    Array.from({ length: attn.heads }, (_, which) => {
      const here = chosen[0] === layer && chosen[1] === which;
      const press = () => page.set({ head: [layer, which] });
      const name = `L${layer}H${which}`;
      return h("button", { type: "button", title: name, "aria-label": name, "aria-pressed": String(here), onclick: press, "data-head": `${layer}.${which}` }, painted(head(attn, layer, which), Boolean(attn.grid))); // prettier-ignore
    }),
  );
}

/** Rows as they are drawn: a single row of many columns is made tall enough to be visible. */
const tall = (width: number, height: number): number => (height > 1 ? height : Math.max(1, width / 8));

/** One pixel for each weight; `lit`: a veil over the picture, transparent where the weight is large. */
function painted({ width, height, weights }: ReturnType<typeof head>, grid: boolean, lit = false): HTMLCanvasElement {
  const canvas = h<HTMLCanvasElement>("canvas.weights", { width, height, style: `aspect-ratio:${width}/${tall(width, height)}` });
  const hex = getComputedStyle(document.body)
    .getPropertyValue(lit ? "--paper" : "--drawn")
    .trim();
  const rgb = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) || 0);
  const most = grid ? largest(weights) : 1;
  const image = new ImageData(width, height);
  weights.forEach((weight, i) => {
    const share = Math.min(Math.max(weight / most, 0), 1);
    image.data.set([...rgb, Math.round(255 * (lit ? 0.94 * (1 - Math.sqrt(share)) : grid ? share : Math.sqrt(share)))], 4 * i);
  });
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}

const largest = (weights: Float64Array): number => weights.reduce((most, weight) => Math.max(most, weight), 0) || 1;

function enlarged(page: RunPage, sample: Sample, attn: SampleAttention, [layer, which]: [number, number]): HTMLElement {
  const one = head(attn, layer, which);
  const { width, height, weights } = one;
  const side = Math.max(4, Math.min(44, Math.floor(LARGE / Math.max(width, height))));
  const seen = attn.grid && page.history.picture(sample.prompt);
  const canvas = painted(one, Boolean(attn.grid), Boolean(seen));
  const frame = h("i.frame", { "aria-hidden": "true", hidden: true });
  const reading = h("output.reading", "Point at it, or use the arrow keys.");
  const place = h(
    "div.field",
    { tabindex: 0, role: "application", "aria-label": `weights of L${layer}H${which}: arrow keys read them`, style: `--columns:${width};--rows:${tall(width, height)};--side:${side}px` }, // prettier-ignore
    canvas,
    frame,
  );
  if (seen) place.prepend(picture(seen, sample.prompt));
  let cell = 0;
  const point = (to: number) => {
    cell = to;
    const [row, column] = [Math.floor(to / width), to % width];
    frame.hidden = false;
    frame.style.cssText = `left:calc(100% * ${column} / ${width});top:calc(100% * ${row} / ${height});width:calc(100% / ${width});height:calc(100% / ${height})`;
    reading.textContent = attn.grid
      ? `“${visible(attn.keys[to], to)}”: ${digits(weights[to])}`
      : `“${visible(attn.queries[row], row)}” ${row} attends to “${visible(attn.keys[column], column)}” ${column}: ${digits(weights[to])}`;
  };
  place.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const [c, r] = [Math.floor(((event.clientX - box.left) / box.width) * width), Math.floor(((event.clientY - box.top) / box.height) * height)]; // prettier-ignore
    if (c >= 0 && r >= 0 && c < width && r < height) point(r * width + c);
  });
  place.addEventListener("focus", () => point(cell));
  place.addEventListener("keydown", (event) => {
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
    const to = cell + (moves[event.key] ?? NaN);
    if (!(to >= 0 && to < weights.length)) return;
    point(to);
    event.preventDefault();
  });
  const names = (tokens: string[], count: number, kind: string) =>
    attn.grid ? h("span") : h(`div.${kind}`, { "aria-hidden": "true", "data-long": String(tokens.some((token) => token.length > 2)) }, Array.from({ length: count }, (_, i) => h("span", visible(tokens[i], i)))); // prettier-ignore
  return h("div", h("div.lettered", { style: `--side:${side}px;--columns:${width};--rows:${height}` }, h("span"), names(attn.keys, width, "columns"), names(attn.queries, height, "rows"), place), reading); // prettier-ignore
}

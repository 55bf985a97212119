// Attention of a fixed example: every layer and head small, one of them large, with its tokens and its numbers.
import type { Sample } from "../contract";
import { h } from "../dom";
import { type Tensor, unpack } from "../tensor";
import { picture } from "./examples";
import { digits } from "../axis";
import type { Reading } from "./page";

const LARGE = 384; // pixels, at most, of the enlarged one

export interface Looking {
  layers: number;
  heads: number;
  rows: number;
  columns: number;
  weights: Tensor;
  from: string[]; // the tokens that draw
  to: string[]; // the tokens that are drawn from
  grid?: [number, number]; // in which `to` stands, where one token alone draws from patches
}

/** What a sample says of attention, or nothing where it does not fit together. */
export function looking(sample: Sample): Looking | undefined {
  const weights = sample.attention && unpack(sample.attention);
  if (!weights || weights.shape.length !== 4) return undefined;
  const [layers, heads, rows, columns] = weights.shape;
  const to = sample.source?.length ? sample.source : (sample.tokens ?? []);
  const [r, c] = sample.grid ?? [0, 0];
  const grid: [number, number] | undefined = rows === 1 && r * c === columns && c > 0 ? [r, c] : undefined;
  return { layers, heads, rows, columns, weights, from: sample.tokens ?? [], to, grid };
}

/** A token that can be seen: spaces at its ends and ends of lines too. */
export const visible = (token: string | undefined, place: number): string =>
  token === undefined ? `${place + 1}` : token === "" ? "∅" : token.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ +| +$/g, (s) => "␣".repeat(s.length)); // prettier-ignore

/** The weights of one head, as they are drawn: patches in their grid, else one row a token. */
export function head(look: Looking, layer: number, which: number): { width: number; height: number; weights: Float64Array } {
  const size = look.rows * look.columns;
  const begin = (layer * look.heads + which) * size;
  const [height, width] = look.grid ?? [look.rows, look.columns];
  return { width, height, weights: look.weights.data.subarray(begin, begin + size) };
}

export function attention(page: Reading, step: number): HTMLElement[] {
  return page.history.looked(step).flatMap((sample) => {
    const look = looking(sample);
    return look ? [shown(page, sample, look)] : [];
  });
}

function shown(page: Reading, sample: Sample, look: Looking): HTMLElement {
  const [layer, which] = page.state.head ?? [look.layers - 1, 0];
  const chosen: [number, number] = [Math.min(layer, look.layers - 1), Math.min(which, look.heads - 1)];
  return h(
    "div.looked",
    h(
      "div.mosaic",
      { style: `--heads:${look.heads}`, role: "group", "aria-label": `attention of ${look.layers} layers with ${look.heads} heads` }, // prettier-ignore
      h(
        "div.heads",
        { "aria-hidden": "true" },
        h("span"),
        Array.from({ length: look.heads }, (_, i) => h("span", `head ${i + 1}`)),
      ),
      Array.from({ length: look.layers }, (_, l) => layerRow(page, look, l, chosen)),
    ),
    h(
      "div.enlarged",
      h("h4", `Layer ${chosen[0] + 1}, head ${chosen[1] + 1}`, h("span.quiet", `after step ${sample.step.toLocaleString("en")}`)),
      enlarged(page, sample, look, chosen),
      h("p.quiet", explained(page, sample, look, head(look, ...chosen).weights)),
    ),
  );
}

/** How the pictures are read. */
function explained(page: Reading, sample: Sample, look: Looking, weights: Float64Array): string {
  if (!look.grid) {
    const across = (sample.source ?? []).length > 0 ? " of the answer" : "";
    return `Each row is a token${across}; the stronger the colour, the more it drew from there. The strength is the square root of the weight, so that small ones are seen.`;
  }
  const lit = page.history.picture(sample.given) ? " The picture is lit by the square root of that." : "";
  return `What “${look.from[0] ?? "the read-out"}” drew from each ${look.grid[0] > 1 ? "patch" : "place"}. The full colour is the largest weight of the head, here ${digits(largest(weights))}.${lit}`;
}

function layerRow(page: Reading, look: Looking, layer: number, chosen: [number, number]): HTMLElement {
  return h(
    "div.layer",
    h("span.quiet", { "aria-hidden": "true" }, `layer ${layer + 1}`),
    Array.from({ length: look.heads }, (_, which) => {
      const here = chosen[0] === layer && chosen[1] === which;
      const press = () => page.set({ head: [layer, which] });
      const name = `layer ${layer + 1}, head ${which + 1}`;
      return h("button", { type: "button", title: name, "aria-label": name, "aria-pressed": String(here), onclick: press, "data-head": `${layer}.${which}` }, painted(head(look, layer, which), Boolean(look.grid))); // prettier-ignore
    }),
  );
}

/** Rows as they are drawn: a single one of many columns is a band that can be seen. */
const tall = (width: number, height: number): number => (height > 1 ? height : Math.max(1, width / 8));

/** One pixel a weight, the stronger the colour the more; `lit`: a veil instead, that is thin where the weight is large. */
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

function enlarged(page: Reading, sample: Sample, look: Looking, [layer, which]: [number, number]): HTMLElement {
  const one = head(look, layer, which);
  const { width, height, weights } = one;
  const side = Math.max(4, Math.min(44, Math.floor(LARGE / Math.max(width, height))));
  const seen = look.grid && page.history.picture(sample.given);
  const canvas = painted(one, Boolean(look.grid), Boolean(seen));
  const frame = h("i.frame", { "aria-hidden": "true", hidden: true });
  const said = h("output.said", "Point at it, or use the arrow keys.");
  const place = h(
    "div.field",
    { tabindex: 0, role: "application", "aria-label": `weights of layer ${layer + 1}, head ${which + 1}: arrow keys read them`, style: `--columns:${width};--rows:${tall(width, height)};--side:${side}px` }, // prettier-ignore
    canvas,
    frame,
  );
  if (seen) place.prepend(picture(seen, sample.given));
  let cell = 0;
  const point = (to: number) => {
    cell = to;
    const [row, column] = [Math.floor(to / width), to % width];
    frame.hidden = false;
    frame.style.cssText = `left:calc(100% * ${column} / ${width});top:calc(100% * ${row} / ${height});width:calc(100% / ${width});height:calc(100% / ${height})`;
    said.textContent = look.grid
      ? `“${visible(look.to[to], to)}”: ${digits(weights[to])}`
      : `“${visible(look.from[row], row)}” (${row + 1}) drew ${digits(weights[to])} from “${visible(look.to[column], column)}” (${column + 1})`;
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
    look.grid ? h("span") : h(`div.${kind}`, { "aria-hidden": "true", "data-long": String(tokens.some((token) => token.length > 2)) }, Array.from({ length: count }, (_, i) => h("span", visible(tokens[i], i)))); // prettier-ignore
  return h("div", h("div.lettered", { style: `--side:${side}px;--columns:${width};--rows:${height}` }, h("span"), names(look.to, width, "columns"), names(look.from, height, "rows"), place), said); // prettier-ignore
}

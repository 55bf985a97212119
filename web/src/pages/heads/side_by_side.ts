// Two models side by side on the same input: which of them is shown, and the distance between each pair of heads.
import type { SideBySide, Heads, AttentionLayer } from "../../core/contract";
import { button, h } from "../../core/dom";
import { segmentedControl } from "./detail";
import { headName, layerName } from "./mosaic";
import type { HeadsPage } from "./page";
import { colour } from "../../charts/canvas";
import { badge } from "./roles";
import type { HeadsState } from "./state";

export type Side = HeadsState["side"];
const ROWS = 12;

/** The other model as a record of its own; a layer without a counterpart is that of the first model. */
export const otherRecord = (record: Heads): Heads | undefined =>
  record.side_by_side
    ? {
        ...record,
        model: record.side_by_side.model,
        dtype: record.side_by_side.dtype,
        layers: record.layers.map((layer, i) => record.side_by_side!.layers[i] ?? layer),
      }
    : undefined;

/** Whether a layer has a counterpart in the other model. */
export const hasCounterpart = ({ side_by_side: beside }: Heads, layer: number): boolean => Boolean(beside?.layers[layer]);

/** Which model a layer shows: the first where it has no counterpart. */
export const shownSide = ({ record, state }: Pick<HeadsPage, "record" | "state">, layer: number): Side =>
  hasCounterpart(record, layer) ? state.side : "this";

/** A switch between the two models and their difference. */
export function modelSwitch(page: HeadsPage) {
  const [one, other] = page.record.side_by_side!.names;
  return segmentedControl(
    "which model",
    [
      ["this", one, `Show ${one}`],
      ["other", other, `Show ${other}`],
      ["difference", "difference", `Show how ${other} differs from ${one}`],
    ],
    (value) => page.set({ side: value as Side }),
  );
}

export interface Pair {
  layer: number;
  head: number;
  apart: number;
}

/** All pairs of heads, the largest distance first. */
export const rankedPairs = ({ total_variation }: Pick<SideBySide, "total_variation">): Pair[] =>
  total_variation
    .flatMap((row, layer) => row.map((far, head) => ({ layer, head, apart: far })))
    .sort((a, b) => b.apart - a.apart || a.layer - b.layer || a.head - b.head);

/** The distance between two heads as a square: its opacity is the distance. */
export function distanceSquare(
  context: CanvasRenderingContext2D,
  far: number | undefined,
  at: [number, number],
  cell: number,
  ink: string,
) {
  if (far === undefined) return;
  const [red, green, blue] = colour("--positive");
  context.fillStyle = `rgba(${red}, ${green}, ${blue}, ${0.9 * far})`;
  context.fillRect(at[0], at[1], cell, cell);
  if (cell < 30) return;
  context.fillStyle = ink;
  context.textAlign = "center";
  context.fillText(far.toFixed(2), at[0] + cell / 2, at[1] + cell / 2);
}

const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** The distances in one sentence. */
export function distanceSummary(
  { side_by_side: other, layers }: Pick<Heads, "side_by_side" | "layers">,
  name: (layer: number) => string,
): string {
  const pairs = rankedPairs(other!);
  const mean = (row: number[]) => row.reduce((sum, far) => sum + far, 0) / row.length;
  const by = layers.map((_, layer) => ({ layer, far: other!.total_variation[layer] ?? [] })).filter(({ far }) => far.length);
  const ranked = by.map(({ layer, far }) => ({ layer, far: mean(far) })).sort((a, b) => b.far - a.far);
  const [most, least] = [ranked[0], ranked.at(-1)!];
  const all = `On average ${percent(mean(pairs.map(({ apart }) => apart)))} of a query's weight lies on other tokens in ${other!.names[1]}`;
  if (pairs[0].apart === 0) return `Every weight is the same in ${other!.names[1]}.`;
  return ranked.length > 1
    ? `${all}: most in ${name(most.layer)} (${percent(most.far)}), least in ${name(least.layer)} (${percent(least.far)}).`
    : `${all}.`;
}

/** The pairs of heads as a table, the largest distance first. */
export function pairTable(page: HeadsPage): { element: HTMLElement; draw(): void } {
  const { record } = page;
  const beside = record.side_by_side!;
  const pairs = rankedPairs(beside);
  const name = (layer: number) => layerName(record, layer);
  let shown = ROWS;
  const body = h("tbody");
  const more = h("div.buttons");
  const draw = () => {
    body.replaceChildren(
      ...pairs.slice(0, shown).map(({ layer, head, apart }) => {
        const title = headName(record, layer, head);
        const [one, other] = [record.layers[layer], beside.layers[layer] as AttentionLayer].map(({ heads }) => heads[head].role);
        const open = page.state.open?.[0] === layer && page.state.open[1] === head;
        return h(
          "tr",
          { "data-open": String(open) },
          h(
            "th",
            { scope: "row" },
            button(title, `Open ${title}`, () => page.open(layer, head)),
          ),
          h("td.far", { style: `--share:${apart.toFixed(3)}` }, apart.toFixed(4)),
          h("td", badge(one), ...(one === other ? [] : [" → ", badge(other)])),
        );
      }),
    );
    const press = (count: number) => () => {
      shown = count;
      draw();
    };
    more.replaceChildren(
      ...(pairs.length > shown
        ? [button(`${Math.min(ROWS, pairs.length - shown)} more`, "Show more rows", press(shown + ROWS))]
        : []),
      ...(shown > ROWS ? [button("Fewer", "Show the first rows only", press(ROWS))] : []),
      h("span.quiet", `${Math.min(shown, pairs.length)} of ${pairs.length} pairs of heads`),
    );
  };
  const element = h(
    "section.part.head-pairs",
    { "data-part": "head-pairs" },
    h("h2", "What changed most"),
    h("p.lede", distanceSummary(record, name)),
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": "pairs of heads" }, h("table", h("caption.spoken", "Pairs of heads"), h("thead", h("tr", ["head", "distance", "role"].map((title) => h("th", { scope: "col" }, title)))), body)), // prettier-ignore
    more,
    h("p.quiet", "Distance: the total variation distance of two rows, ½ Σ |weight − weight|, averaged over rows (all, or 512 evenly spaced). 0: equal; 1: nothing in common."), // prettier-ignore
  );
  return { element, draw };
}

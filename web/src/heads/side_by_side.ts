// Two models beside each other on the same input: which of them is shown, how far each pair of heads is apart, what changed most.
import type { Beside, Heads, Layer } from "../contract";
import { button, h } from "../dom";
import { choice } from "./detail";
import { called } from "./mosaic";
import type { Reading } from "./page";
import { colour } from "./canvas";
import { badge } from "./roles";
import type { HeadsState } from "./state";

export type Side = HeadsState["side"];
const ROWS = 12;

/** The other model as a record of its own; a layer without a partner is that of the first model. */
export const otherOf = (record: Heads): Heads | undefined =>
  record.beside
    ? {
        ...record,
        model: record.beside.model,
        dtype: record.beside.dtype,
        layers: record.layers.map((layer, i) => record.beside!.layers[i] ?? layer),
      }
    : undefined;

/** Whether a layer has a partner in the other model. */
export const paired = ({ beside }: Heads, layer: number): boolean => Boolean(beside?.layers[layer]);

/** Which of the two a layer shows: the first where it has no partner. */
export const sideOf = ({ record, state }: Pick<Reading, "record" | "state">, layer: number): Side =>
  paired(record, layer) ? state.side : "this";

/** Which model is shown: a word for each. */
export function sides(page: Reading) {
  const [one, other] = page.record.beside!.names;
  return choice(
    "which model",
    [
      ["this", one, `Show ${one}`],
      ["other", other, `Show ${other}`],
      ["apart", "difference", `Show how ${other} differs from ${one}`],
    ],
    (value) => page.set({ side: value as Side }),
  );
}

export interface Pair {
  layer: number;
  head: number;
  apart: number;
}

/** All pairs of heads, those that are furthest apart first. */
export const changed = ({ apart }: Pick<Beside, "apart">): Pair[] =>
  apart
    .flatMap((row, layer) => row.map((far, head) => ({ layer, head, apart: far })))
    .sort((a, b) => b.apart - a.apart || a.layer - b.layer || a.head - b.head);

/** How far two heads are apart, as a square: its strength is the distance. */
export function square(
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

/** What became of the heads, as one sentence. */
export function summed({ beside, layers }: Pick<Heads, "beside" | "layers">, name: (layer: number) => string): string {
  const pairs = changed(beside!);
  const mean = (row: number[]) => row.reduce((sum, far) => sum + far, 0) / row.length;
  const by = layers.map((_, layer) => ({ layer, far: beside!.apart[layer] ?? [] })).filter(({ far }) => far.length);
  const ranked = by.map(({ layer, far }) => ({ layer, far: mean(far) })).sort((a, b) => b.far - a.far);
  const [most, least] = [ranked[0], ranked.at(-1)!];
  const all = `On average ${percent(mean(pairs.map(({ apart }) => apart)))} of a row's weight lies on other tokens in ${beside!.names[1]}`;
  if (pairs[0].apart === 0) return `Every weight is the same in ${beside!.names[1]}.`;
  return ranked.length > 1
    ? `${all}: most in ${name(most.layer)} (${percent(most.far)}), least in ${name(least.layer)} (${percent(least.far)}).`
    : `${all}.`;
}

/** The pairs of heads as a table, what changed most first. */
export function besides(page: Reading): { element: HTMLElement; draw(): void } {
  const { record } = page;
  const beside = record.beside!;
  const pairs = changed(beside);
  const name = (layer: number) => called(record, layer, 0).replace(/, head 1$/, "");
  let shown = ROWS;
  const body = h("tbody");
  const more = h("div.buttons");
  const draw = () => {
    body.replaceChildren(
      ...pairs.slice(0, shown).map(({ layer, head, apart }) => {
        const title = called(record, layer, head);
        const [one, other] = [record.layers[layer], beside.layers[layer] as Layer].map(({ heads }) => heads[head].role);
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
    "section.part.besides",
    h("h2", "What changed most"),
    h("p.lede", summed(record, name)),
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": "pairs of heads" }, h("table", h("caption.spoken", "Pairs of heads"), h("thead", h("tr", ["head", "apart", "what it does"].map((title) => h("th", { scope: "col" }, title)))), body)), // prettier-ignore
    more,
    h("p.quiet", "Apart: half the sum of |weight − weight| over a row, as the mean over rows (of all, or of 512 at equal distances); 0 is alike, 1 is nothing in common."), // prettier-ignore
  );
  return { element, draw };
}

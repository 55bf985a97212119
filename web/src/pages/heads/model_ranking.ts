// Heads ranked by their effect on the answer: each changed alone by the command on this machine, as a grid to press.
import type { RankedHeads } from "../../core/contract";
import { button, h } from "../../core/dom";
import { digits, number } from "../../core/format";
import { visible } from "../../core/labels";
import { arrows } from "./arrows";
import { segmentedControl } from "./detail";
import type { RankedBy } from "./model_answers";
import { headName, layerName } from "./mosaic";
import type { HeadsPage } from "./page";
import { own } from "./rollout";

const FIRST = 5; // heads that the sentence lists
const WHAT: Record<RankedBy, string> = { zero: "set to 0", mean: "set to its mean", patch: "taken from the second input" };

/** What a ranking says so far, and what it took. all: heads of the model; name: of a head. */
export function rankingSummary(
  ranked: RankedHeads[],
  all: number,
  what: string,
  name: (layer: number, head: number) => string,
): string {
  // prettier-ignore
  const heads = ranked.flatMap(({ layer, effects }) => effects.map((effect, head) => ({ layer, head, effect })));
  const calls = ranked.reduce((sum, one) => sum + one.calls, 0);
  const copies = Math.max(...ranked.map((one) => one.copies));
  const first = [...heads].sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect)).slice(0, FIRST);
  const notes = new Set(ranked.flatMap((one) => one.notes ?? []));
  const [{ metric, name: answer, before }] = ranked;
  return [
    `Change of the ${metric}${answer ? ` of “${visible(answer, 0)}” in nats` : ""} (${digits(Number(before.toPrecision(4)))} unchanged), each head alone ${what}:`,
    `${heads.length} of ${all} heads, ${calls} forward ${calls === 1 ? "call" : "calls"}${copies > 1 ? ` of up to ${copies} copies` : ""}.`,
    `The largest: ${first.map(({ layer, head, effect }) => `${name(layer, head)} ${number(effect, 2)}`).join(", ")}.`,
    ...notes,
  ].join(" ");
}

export function rankingPanel(page: HeadsPage): { element: HTMLElement; draw(): void } | undefined {
  const { record, answers } = page;
  const found = record.interventions;
  if (!found || !answers || (!record.served && !found.rankings?.length)) return undefined;
  const layers = own(record);
  const all = layers.reduce((sum, { heads }) => sum + heads.length, 0);
  const by = segmentedControl("what is done to each head", Object.entries(WHAT).map(([value, text]) => [value, text, `Each head alone is ${text}`]), (value) => page.set({ rank: value as RankedBy })); // prettier-ignore
  const cancel = button("Cancel", "Stop ranking; what was computed stays", () => answers.cancel());
  const off = button("Close", "Put the ranking away", () => page.set({ rank: undefined }));
  const status = h("p.summary", { role: "status" });
  const grid = h("div.scroll", { tabindex: 0, role: "region", "aria-label": "effect of each head" });
  arrows(grid, Math.max(...layers.map(({ heads }) => heads.length)));
  const element = h(
    "section.part.ranking",
    { "data-part": "ranking" },
    h("h2", "Which heads decide the answer?"),
    h("div.choices", by.element, h("div.buttons", cancel, off)),
    status,
    grid,
  );
  return {
    element,
    draw() {
      const { rank, open } = page.state;
      const { ranked, ranking, rankTrouble } = answers;
      by.draw(rank ?? "");
      cancel.hidden = !ranking;
      off.hidden = !rank;
      grid.hidden = !rank || !ranked.length;
      const summary = rank && ranked.length ? rankingSummary(ranked, all, WHAT[rank], (layer, head) => headName(record, layer, head)) : ""; // prettier-ignore
      const idle = rank ? "This ranking is not in the file, and it needs the model." : `Each of ${all} heads alone is changed in the unchanged model.`; // prettier-ignore
      status.textContent = rankTrouble || [ranking && "The model runs …", summary || (!ranking && idle)].filter(Boolean).join(" ");
      const most = Math.max(...ranked.flatMap(({ effects }) => effects.map(Math.abs)), 1e-12);
      const focused = (document.activeElement as HTMLElement | null)?.dataset.ranked;
      const stop = focused ?? (open && layers[open[0]] ? open.join(".") : `${ranked[0]?.layer ?? 0}.0`);
      grid.replaceChildren(
        h(
          "table.ranked",
          h("caption.spoken", "Effect of each head on the answer"),
          h("thead", h("tr", h("td"), Array.from({ length: Math.max(...layers.map(({ heads }) => heads.length)) }, (_, i) => h("th", { scope: "col" }, `H${i}`)))), // prettier-ignore
          h(
            "tbody",
            layers.map((_, layer) => {
              const one = ranked.find((other) => other.layer === layer);
              return h(
                "tr",
                h("th", { scope: "row" }, layerName(record, layer)),
                one?.effects.map((effect, head) => {
                  const name = headName(record, layer, head);
                  return h("td", h("button", { type: "button", "data-ranked": `${layer}.${head}`, tabindex: stop === `${layer}.${head}` ? 0 : -1, "data-effect": effect, "data-sign": effect < 0 ? "less" : "more", "aria-pressed": String(open?.[0] === layer && open[1] === head), style: `--share:${(Math.abs(effect) / most).toFixed(3)}`, title: `${name}: ${digits(effect)}`, "aria-label": `${name}: ${number(effect, 2)}`, onclick: () => page.open(layer, head) }, number(effect, 2))); // prettier-ignore
                }),
              );
            }),
          ),
        ),
      );
      if (focused) grid.querySelector<HTMLElement>(`[data-ranked="${focused}"]`)?.focus({ preventScroll: true });
    },
  };
}

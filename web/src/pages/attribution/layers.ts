// Layers: the logit lens. What the last part of the model answers to the residual stream of every layer.
import type { Attribution } from "../../core/contract";
import { asPart, h } from "../../core/dom";
import { number } from "../../core/format";
import { visible } from "../../core/labels";
import { unpack } from "../../core/tensor";
import type { Section } from "./page";

const percent = (share: number): string => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export function layers(record: Attribution): Section {
  const rows = record.lens ?? [];
  const known = (value: number | null | undefined): value is number => value !== null && value !== undefined;
  const answers = rows.every(({ probability }) => known(probability)); // else the model returns a number, such as an energy
  const distribution = rows.every(({ divergence }) => known(divergence));
  const several = Boolean(record.lens_best); // else the model has one answer, and each layer agrees or not
  const heads = ["stream", ...(answers ? ["most probable answer", "probability of the answer", "its rank"] : [record.metric]), ...(several ? ["answers that agree with the model"] : []), ...(distribution ? ["distance from the output (KL), nats"] : [])]; // prettier-ignore
  const table = h(
    "table.lens",
    h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
    h(
      "tbody",
      rows.map((one) =>
        h(
          "tr",
          h("th", { scope: "row" }, one.name),
          answers && h("td", h("bdi", visible(one.best, 0))),
          answers && h("td.number", bar(one.probability!), h("span", number(one.probability!, 3))),
          answers && h("td.number", String(one.rank)),
          !answers && h("td.number", number(one.value, 3)),
          several && h("td.number", bar(one.agreement!), h("span", percent(one.agreement!))),
          distribution && h("td.number", number(one.divergence!, 3)),
        ),
      ),
    ),
  );
  const element = asPart(
    "layers",
    h(
      "section.part",
      h("h2", answers ? "From which layer on is it decided? (logit lens)" : "What do earlier layers say?"),
      h("p.quiet", record.lens_note ?? ""),
      rows.length > 0 && scrolled("Logit lens by layer", table),
      every(record),
    ),
  );
  return { element, draw() {} };
}

const bar = (share: number): HTMLElement =>
  h("span.bar", { "aria-hidden": "true" }, h("i", { style: `width:${(100 * Math.min(1, share)).toFixed(1)}%` }));

const scrolled = (label: string, ...inside: HTMLElement[]): HTMLElement =>
  h("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, inside);

/** The most probable answer after each token, layer by layer. */
function every(record: Attribution): HTMLElement | false {
  const { lens_best: best, lens_probability: probability, lens_names: names = [], lens_first: first = 0, lens = [] } = record;
  if (!best || !probability) return false;
  const [indices, shares] = [unpack(best), unpack(probability)];
  const columns = indices.shape[1];
  const { labels } = record.answers ?? record.sequence;
  const label = (i: number) => visible(labels[first + i], first + i);
  return h(
    "details.every",
    h("summary", `The most probable answer after each of ${first ? "the last " : ""}${columns} tokens`),
    scrolled(
      "Answers of every layer after each token",
      h(
        "table.grid-of-answers",
        h("thead", h("tr", h("th", { scope: "col" }, "stream"), Array.from({ length: columns }, (_, i) => h("th", { scope: "col" }, h("bdi", label(i)))))), // prettier-ignore
        h(
          "tbody",
          lens.map((_, layer) => lens.length - 1 - layer).map((layer) => // the last layer stands on top
            h(
              "tr",
              h("th", { scope: "row" }, lens[layer].name),
              Array.from({ length: columns }, (_, i) => {
                const cell = layer * columns + i;
                const same = indices.data[cell] === indices.data[(lens.length - 1) * columns + i];
                const share = shares.data[cell];
                return h("td", { style: `--tint:${(share * 60).toFixed(0)}%`, "data-same": String(same), title: `probability ${number(share, 3)}` }, h("bdi", visible(names[indices.data[cell]], 0))); // prettier-ignore
              }),
            ),
          ), // prettier-ignore
        ),
      ),
    ),
    h("p.quiet", "Bold: the same answer as the last layer. The colour is the probability of the cell's own answer."),
  );
}

// The page of masks: the attention mask, the training examples of a sentence, the receptive field, decoding with a KV cache.
import type { Masks } from "../../core/contract";
import { button, h } from "../../core/dom";
import { save } from "../../core/save";
import { Store } from "../../core/store";
import { at } from "../../core/tensor";
import { navigation } from "../../widgets/navigation";
import { decoding } from "./decoding";
import { trainingExamples } from "./training_examples";
import { receptiveField } from "./receptive_field";
import { type MasksState, stateOf } from "./state";
import { maskPanel } from "./mask";
import "./masks.css";

/** What a script on the page may reach. */
export interface MasksPage extends Store<MasksState> {
  record: Masks;
  weights(head: number): number[][]; // under the chosen mask, [query][key]
}

export function mount(record: Masks, root: HTMLElement): MasksPage {
  const page: MasksPage = Object.assign(new Store(stateOf(record)), {
    record,
    weights(head: number) {
      const { program, weights, names } = mask.now();
      const value = program.get(weights);
      return names.map((_, i) => names.map((_, j) => at(value, [head, i, j])));
    },
  });
  const mask = maskPanel(page);
  const parts = [mask, trainingExamples(page), receptiveField(page), decoding(page)];
  /** Redraw the parts that read a changed field; all parts without an argument. */
  const draw = (change?: Partial<MasksState>) => {
    for (const one of parts) if (!change || one.reads.some((name) => name in change)) one.draw();
  };
  document.body.classList.add("masks");
  root.replaceChildren(
    header(record),
    h(
      "main",
      { id: "story" },
      part("mask", "The attention mask", "Rows are queries, columns are keys. A masked pair has weight exactly 0. Heads and positions are counted from 0.", mask.element), // prettier-ignore
      part("examples", "The training examples of one sentence", "Under the causal mask a row has no access to later words. Each row is therefore a training example of its own, and one pass learns from all of them.", parts[1].element), // prettier-ignore
      part("receptive-field", "The receptive field", "With a sliding window one layer reaches a few words back. Each layer adds as many, so the receptive field grows with depth.", parts[2].element), // prettier-ignore
      part("cache", "Decoding with a KV cache", "Keys and values of earlier words do not change when a word is added. A decoder caches them and computes one row a step.", parts[3].element), // prettier-ignore
    ),
    h("footer", { "data-part": "footer" }, "equiscope: weights are computed in your browser from the program of a real model; losses, influence and decoding were measured when this page was made. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  page.onChange(draw);
  draw();
  return page;
}

function header({ words, model, parameters, title, summary, notes }: Masks): HTMLElement {
  const facts: [string, string][] = [
    ["sentence", words.join(" ")],
    ["model", model],
    ["parameters", parameters.toLocaleString("en")],
  ];
  return h(
    "header",
    { "data-title": title },
    navigation("masks"),
    h("h1", { "data-part": "title" }, "Attention masks: who may attend to whom"),
    h("p.lede", { "data-part": "title" }, summary),
    h("dl.facts", { "data-part": "facts" }, facts.map(([name, text]) => h("div", h("dt", name), h("dd", h("bdi", text))))), // prettier-ignore
    (notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
  );
}

function part(id: string, title: string, lede: string, content: HTMLElement): HTMLElement {
  const name = `equiscope-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const kept = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save this part as ${kind.toUpperCase()}`, () => save(root, name, kind), { class: "keep", "aria-label": `Save “${title}” as ${kind.toUpperCase()}` }); // prettier-ignore
  const root: HTMLElement = h(
    "section.part",
    { "data-part": id },
    h("div.head", h("h2", title), h("div.buttons", kept("svg"), kept("png"))),
    h("p.lede", lede),
    content,
  );
  return root;
}

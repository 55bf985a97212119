// The page of masks: who may look at whom, the examples of a sentence, how far a word sees, decoding with a cache.
import type { Masks } from "../contract";
import { button, h } from "../dom";
import { save } from "../figure";
import { at } from "../tensor";
import { decoding } from "./decoding";
import { lessons } from "./training_examples";
import { reach } from "./receptive_field";
import { fromHash, type MasksState, toHash } from "./state";
import { who } from "./mask";
import "./masks.css";

/** What a script on the page may reach. */
export interface Reading {
  record: Masks;
  state: MasksState;
  set(change: Partial<MasksState>): void;
  weights(head: number): number[][]; // under the chosen mask, rows ask
}

export function reveal(record: Masks, root: HTMLElement): Reading {
  const page: Reading = {
    record,
    state: fromHash(location.hash, record),
    set(change) {
      page.state = { ...page.state, ...change };
      const hash = toHash(page.state, record);
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
      draw(change);
    },
    weights(head) {
      const { program, weights, names } = looking.now();
      const value = program.get(weights);
      return names.map((_, i) => names.map((_, j) => at(value, [head, i, j])));
    },
  };
  const looking = who(page);
  const parts = [looking, lessons(page), reach(page), decoding(page)];
  /** The parts that read what was changed; all of them unless said. */
  const draw = (change?: Partial<MasksState>) => {
    for (const one of parts) if (!change || one.reads.some((name) => name in change)) one.draw();
  };
  document.body.classList.add("masks");
  root.replaceChildren(
    header(record),
    h(
      "main",
      { id: "story" },
      part("Who may look at whom", "A row asks, a column answers. What the mask hides weighs exactly 0.", looking.element), // prettier-ignore
      part("The training examples of one sentence", "Under the causal mask each row knows nothing of later words. So each row is an example of its own, and one pass learns from all of them.", parts[1].element), // prettier-ignore
      part("How far a word sees", "In a window a word sees few words in one layer. Each layer hands on what it saw, so the reach grows with the layers.", parts[2].element), // prettier-ignore
      part("Word by word, with a cache", "What earlier words gave as keys and values does not change when a word follows. So a decoder keeps them and computes one row a step.", parts[3].element), // prettier-ignore
    ),
    h("footer", "equiscope: weights are computed in your browser from the traced program of a real model; losses, influence and decoding were measured when this page was made. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) === toHash(page.state, record)) return;
    page.state = fromHash(location.hash, record);
    draw();
  });
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
    h("div.top", h("p.brand", "equiscope ", h("span", "explore"))),
    h("h1", "Masks"),
    h("p.lede", summary),
    h("dl.facts", facts.map(([name, text]) => h("div", h("dt", name), h("dd", h("bdi", text))))), // prettier-ignore
    (notes ?? []).map((note) => h("p.notice", note)),
  );
}

function part(title: string, lede: string, content: HTMLElement): HTMLElement {
  const name = `equiscope-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const kept = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save this part as ${kind.toUpperCase()}`, () => save(root, name, kind), { class: "keep", "aria-label": `Save “${title}” as ${kind.toUpperCase()}` }); // prettier-ignore
  const root: HTMLElement = h(
    "section.part",
    h("div.head", h("h2", title), h("div.buttons", kept("svg"), kept("png"))),
    h("p.lede", lede),
    content,
  );
  return root;
}

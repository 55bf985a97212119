// The receptive field: layers by words, and the paths that lead to the last word. Beside the drawing, what was measured.
import { h, slider, svg } from "../../core/dom";
import { number } from "../../core/format";
import { COLOURS } from "../../core/names";
import { offset, unpack } from "../../core/tensor";
import { figure } from "./training_examples";
import type { MasksPage } from "./page";
import { LAYERS, type MasksState } from "./state";

const [LEVEL, WIDEST] = [64, 104]; // pixels: from layer to layer, and from word to word at most

export function receptiveField(page: MasksPage) {
  const reads: (keyof MasksState)[] = ["window", "layers"];
  const { words, influence } = page.record;
  const count = words.length;
  const measured = unpack(influence);
  let at: [number, number] | undefined; // layer and word
  let width = 0;
  const place = h("div.triangle");
  const explanation = h("p.reason", { role: "status", "aria-live": "polite" });
  const figures = h("dl.figures");
  const controls = h("div.choices");
  const element = h("div", controls, place, explanation, figures);

  const felt = (layer: number, word: number): number =>
    measured.data[offset(measured.shape, [page.state.layers - 1, page.state.window - 1, layer, word])];
  /** The first word whose state after a layer reaches the last word's output. */
  const first = (layer: number): number => Math.max(0, count - 1 - (page.state.layers - layer) * (page.state.window - 1));

  let shown = "";
  function draw(): void {
    const { window, layers } = page.state;
    const wanted = `${window} ${layers}`;
    if (shown !== wanted)
      controls.replaceChildren(
        slider(
          "window",
          [1, count],
          window,
          (window, step) => ((shown = `${window} ${page.state.layers}`), page.set({ window }, { step })),
          words_,
        ),
        slider(
          "layers",
          [1, LAYERS],
          layers,
          (layers, step) => ((shown = `${page.state.window} ${layers}`), page.set({ layers }, { step })),
        ),
      );
    shown = wanted;
    paint();
    tell();
    const back = layers * (window - 1);
    const reached = Array.from({ length: count }, (_, j) => j).filter((j) => felt(0, j) > 0).length;
    const others = count - reached;
    figures.replaceChildren(
      figure("reach", `${back} word${back === 1 ? "" : "s"} back`, `layers × (window − 1) = ${layers} × (${window} − 1)`),
      figure("by the mask", words_(count - first(0)), back >= count ? "the sentence is shorter than the receptive field" : `the last word and ${back} before it`), // prettier-ignore
      figure("measured", words_(reached), `influence the last output; ${others ? `the influence of the other ${others} is exactly 0` : "all of them do"}`), // prettier-ignore
    );
  }

  function paint(): void {
    const room = place.clientWidth;
    if (!room) return;
    width = room;
    const { layers, window } = page.state;
    const left = 62;
    const gap = Math.min(WIDEST, (room - left - 14) / count);
    const slanted = gap < 58;
    const turn = gap < 18 ? 90 : 55;
    const radius = Math.max(3, Math.min(9, gap * 0.24));
    const bottom = 26 + layers * LEVEL;
    const letters = Math.max(...words.map((word) => [...word].length));
    const tall = bottom + (slanted ? Math.min(turn === 90 ? 118 : 106, 26 + letters * (turn === 90 ? 7 : 6.6)) : 34);
    const x = (word: number) => left + (word + 0.5) * gap;
    const y = (layer: number) => bottom - layer * LEVEL;
    const [ways, others] = [[] as string[], [] as string[]];
    for (let layer = 0; layer < layers; layer++)
      for (let to = 0; to < count; to++)
        for (let from = Math.max(0, to - window + 1); from <= to; from++)
          (to >= first(layer + 1) ? ways : others).push(`M${x(from)} ${y(layer)}L${x(to)} ${y(layer + 1)}`);
    const nodes: SVGElement[] = [];
    for (let layer = layers; layer >= 0; layer--)
      for (let word = 0; word < count; word++) nodes.push(node(layer, word, x(word), y(layer), radius));
    const label = `${layers} layers over ${count} words: which words reach the last one. Arrow keys move.`;
    const drawing = svg(
      "svg",
      { width: room, height: tall, viewBox: `0 0 ${room} ${tall}`, role: "group", "aria-label": label },
      svg("path.other", { d: others.join("") }),
      svg("path.way", { d: ways.join("") }),
      Array.from({ length: layers + 1 }, (_, layer) =>
        svg("text.level", { x: 0, y: y(layer) + 4 }, layer ? `L${layer - 1}` : "words"),
      ),
      nodes,
      words.map((word, i) =>
        svg(
          "text",
          slanted
            ? {
                transform: `translate(${x(i) + 4} ${bottom + radius + 10}) rotate(-${turn})`,
                "text-anchor": "end",
                "data-colour": i % COLOURS,
              }
            : { x: x(i), y: bottom + 28, "text-anchor": "middle", "data-colour": i % COLOURS },
          cut(word, slanted ? 14 : Math.max(3, Math.floor(gap / 8.4))),
        ),
      ),
    );
    const had = place.contains(document.activeElement);
    place.replaceChildren(drawing);
    if (had && at) nodeAt(...at)?.focus();
  }

  function node(layer: number, word: number, cx: number, cy: number, r: number): SVGElement {
    const now = at ?? [0, count - 1];
    const select = (pick: boolean) => () => {
      at = [layer, word];
      for (const other of place.querySelectorAll<SVGElement>("circle")) other.tabIndex = -1;
      circle.tabIndex = 0;
      if (pick) circle.focus({ preventScroll: true });
      tell();
    };
    const circle = svg("circle.node", {
      cx,
      cy,
      r,
      role: "img",
      tabindex: now[0] === layer && now[1] === word ? 0 : -1,
      "aria-label": `${name(layer, word)}: ${number(felt(layer, word), 4)}`,
      "data-layer": layer,
      "data-word": word,
      "data-felt": String(felt(layer, word) > 0),
      "data-drawn": String(word >= first(layer)),
      onpointerenter: select(false),
      onclick: select(true),
      onfocus: select(false),
      onkeydown: (event: KeyboardEvent) => {
        const to: Record<string, [number, number]> = { ArrowLeft: [layer, word - 1], ArrowRight: [layer, word + 1], ArrowUp: [layer + 1, word], ArrowDown: [layer - 1, word], Home: [layer, 0], End: [layer, count - 1] }; // prettier-ignore
        if (!to[event.key]) return;
        event.preventDefault();
        nodeAt(...to[event.key])?.focus();
      },
    });
    return circle;
  }

  const nodeAt = (layer: number, word: number) =>
    place.querySelector<SVGElement>(`circle[data-layer="${layer}"][data-word="${word}"]`);
  const name = (layer: number, word: number): string => `“${words[word]}” ${word}${layer ? ` after L${layer - 1}` : ""}`;

  function tell(): void {
    const [layer, word] = at && at[0] <= page.state.layers ? at : [0, Math.max(0, first(0))];
    for (const circle of place.querySelectorAll<SVGElement>("circle")) circle.toggleAttribute("data-chosen", circle === nodeAt(layer, word)); // prettier-ignore
    const size = felt(layer, word);
    const drawn = word >= first(layer);
    const ways = drawn ? "A path leads from here to the last word's output." : `No path leads from here to the last word's output: ${count - 1 - word} words back are more than ${page.state.layers - layer} × (${page.state.window} − 1) = ${(page.state.layers - layer) * (page.state.window - 1)}.`; // prettier-ignore
    explanation.textContent = `${name(layer, word)}: ${ways} Measured: the Jacobian of that output with respect to this one has norm ${size ? number(size, 4) : "exactly 0"}.`; // prettier-ignore
  }

  new ResizeObserver(() => place.clientWidth !== width && paint()).observe(place);
  return { element, reads, draw };
}

const words_ = (n: number): string => `${n} word${n === 1 ? "" : "s"}`;

const cut = (word: string, most: number): string => {
  const letters = [...word];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : word;
};

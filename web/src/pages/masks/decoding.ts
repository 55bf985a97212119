// Decoding step by step: which query is new, which keys and values come from the cache, which are evicted, and what the cache saves.
import { button, h, slider } from "../../core/dom";
import { number, scientific } from "../../core/format";
import { COLOURS, type Name } from "../../core/names";
import { at } from "../../core/tensor";
import { stepsBack, derivationLine } from "./derivation";
import { type Cell, grid } from "./grid";
import { mayAttend, reason, type MaskedAttention, maskedAttention } from "./combined";
import { figure } from "./training_examples";
import type { MasksPage } from "./page";
import type { MasksState } from "./state";

const ROWS: Name[] = ["query", "keys", "values", "weights"].map((text) => ({ text, colour: -1 }));

export function decoding(page: MasksPage) {
  const reads: (keyof MasksState)[] = ["step", "keep", "head"];
  const { record } = page;
  const {
    words,
    cached_multiply_adds: cached,
    full_multiply_adds: whole,
    token_multiply_adds: row,
    pair_multiply_adds: pair,
  } = record;
  const count = words.length;
  const names: Name[] = words.map((text, i) => ({ text, colour: i % COLOURS }));
  let now: MaskedAttention;
  let computedKeep = 0;
  let pointed: [number, number] | undefined;
  let picked: [number, number] | undefined;
  const view = grid("one step of decoding: query, keys, values and weights by word", {
    point(cell) {
      pointed = cell;
      tell();
    },
    pick(cell) {
      [picked, pointed] = [cell, undefined];
      tell();
    },
  });
  const go = (step: number) => page.set({ step: Math.max(0, Math.min(count - 1, step)) });
  const back = button("Back", "One step back", () => go(page.state.step - 1));
  const next = button("Next", "One step forward", () => go(page.state.step + 1));
  const sliders = [h("div.knob"), h("div.knob")];
  const stepper = h("div.choices.stepper", h("div.buttons", back, next), sliders);
  stepper.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || (event.target as HTMLElement).tagName === "INPUT") return;
    event.preventDefault();
    go(page.state.step + by);
  });
  const explanation = h("p.reason", { role: "status", "aria-live": "polite" });
  const detail = h("p.detail");
  const ladder = h("div.ladder", { role: "group", "aria-label": "how the weight is computed" });
  const figures = h("dl.figures");
  const element = h(
    "div",
    stepper,
    explanation,
    h("div.beside", h("div.cached", view.element, key()), h("div.explained", detail, ladder)),
    figures,
  );

  const turn = (step = page.state.step) => record.decoding[page.state.keep - 1][step];
  const isKept = (word: number): boolean => (turn().cached_positions ?? []).includes(word);
  /** The step after which a word's key and value were evicted. */
  const goneAt = (word: number): number =>
    record.decoding[page.state.keep - 1].findIndex(({ evicted_positions: dropped }) => dropped.includes(word));

  function cell(r: number, word: number): Cell {
    const { step, head } = page.state;
    const state = word > step ? "blank" : word === step ? "new" : isKept(word) ? "cached" : "evicted";
    if (r === 0) return word === step ? { state: "new", share: 0, text: "new", spoken: "new" } : { state: "blank", share: 0, text: "", spoken: "none" }; // prettier-ignore
    if (r < 3) {
      const spoken = { blank: "not read yet", new: "new", cached: "from the cache", evicted: "evicted" }[state];
      return { state, share: 0, text: { blank: "", new: "new", cached: "cached", evicted: "evicted" }[state], spoken };
    }
    if (word > step) return { state: "blank", share: 0, text: "", spoken: "not read yet" };
    const weight = at(now.program.get(now.weights), [head, step, word]);
    if (!mayAttend(now, now.visible, step, word)) return { state: "masked", share: 0, text: "", spoken: "masked" };
    return { state: "attended", share: Math.sqrt(weight), text: number(weight, 2), spoken: number(weight, 4) };
  }

  function draw(): void {
    const { step, keep } = page.state;
    const window = keep < count ? [{ name: "window", n: keep }] : [];
    if (computedKeep !== keep)
      now = maskedAttention(record, { ...page.state, rules: [{ name: "causal", n: 0 }, ...window], join: "and" });
    computedKeep = keep;
    turnTo(
      sliders[0],
      "step",
      step,
      (value) => go(value),
      (value) => `${value} of ${count - 1}`,
      [0, count - 1],
    );
    turnTo(sliders[1], "window", keep, (keep, step) => page.set({ keep }, { step }), (value) => (value === count ? "none" : `${value} word${value === 1 ? "" : "s"}`)); // prettier-ignore
    [back.disabled, next.disabled] = [step === 0, step === count - 1];
    view.draw({ rows: ROWS, columns: names, cell });
    const { cached_positions: kept, evicted_positions: dropped } = turn();
    const listed = (all: number[]) => (all.length > 4 ? `${named(all[0])} to ${named(all.at(-1)!)}` : all.map(named).join(", "));
    explanation.textContent = [
      `Step ${step} reads ${named(step)}: its query, key and value are new.`,
      kept.length ? `Keys and values of ${listed(kept)} come from the cache.` : "The cache is empty.",
      dropped.length ? `After the step ${listed(dropped)} ${dropped.length === 1 ? "is" : "are"} evicted: no later query can attend to ${dropped.length === 1 ? "it" : "them"}, because of the window.` : "", // prettier-ignore
    ].join(" ");
    numbers(kept.length + 1);
    tell();
  }

  function numbers(keys: number): void {
    const { step, keep } = page.state;
    const tokens = step + 1;
    const plain = (n: number) => n.toLocaleString("en");
    const read = record.decoding[keep - 1].slice(0, tokens).map(({ cached_positions: kept }) => kept.length + 1);
    const [with_, without] = [read.reduce((sum, n) => sum + cached[n - 1], 0), whole.slice(0, tokens).reduce((sum, n) => sum + n, 0)]; // prettier-ignore
    const worst = Math.max(...record.decoding[keep - 1].map(({ difference }) => difference));
    figures.replaceChildren(
      figure("with the cache", plain(cached[keys - 1]), `multiply-adds: 1 row × ${plain(row)} + ${keys} pair${keys === 1 ? "" : "s"}\u00a0×\u00a0${pair}`), // prettier-ignore
      figure("without", plain(whole[step]), `${tokens} row${tokens === 1 ? "" : "s"} × ${plain(row)} + ${tokens}² pairs × ${pair}`), // prettier-ignore
      figure(
        "total so far",
        `${plain(with_)} / ${plain(without)}`,
        `with / without: ${with_ === without ? "the same" : `${number(without / with_, 1)} times less with the cache`}`,
      ),
      figure("difference", scientific(turn().difference), `max |cached output − same row of the full pass|, in float64; over all steps ${scientific(worst)}`), // prettier-ignore
    );
  }

  function tell(): void {
    const { step } = page.state;
    const [r, word] = pointed ?? picked ?? [3, step];
    view.mark([r, word]);
    const what = ["query", "key", "value"][r];
    const seen = r === 3 && word <= step;
    detail.textContent = seen
      ? reason(now, "and", step, word)
      : word > step
        ? `${named(word)} has not been read yet.`
        : r === 0
          ? word === step
            ? `The query of ${named(word)} is computed in this step. No later step needs it, so it is not cached.`
            : `The query of ${named(word)} was needed in step ${word} only. It is not cached.`
          : word === step
            ? `The ${what} of ${named(word)} is computed in this step and cached.`
            : isKept(word)
              ? `The ${what} of ${named(word)} was computed in step ${word} and is read from the cache.`
              : `The ${what} of ${named(word)} was evicted after step ${goneAt(word)}: no later query can attend to it.`;
    const ids = seen ? stepsBack(now.programRecord, now.weights) : [];
    ladder.replaceChildren(
      ...ids.flatMap((id) => derivationLine(now.programRecord, now.program, id, [page.state.head, step, word]) ?? []),
    );
  }

  const named = (word: number): string => `“${words[word]}” ${word}`;

  return { element, reads, draw };

  /** A slider that stays where it is while it is dragged. */
  function turnTo(
    place: HTMLElement,
    label: string,
    value: number,
    move: (value: number, first: boolean) => void,
    read: (value: number) => string,
    range: [number, number] = [1, count],
  ): void {
    // prettier-ignore
    if (place.dataset.shown === String(value)) return;
    place.dataset.shown = String(value);
    const moved = (to: number, first: boolean) => {
      place.dataset.shown = String(to);
      move(to, first);
    };
    place.replaceChildren(slider(label, range, value, moved, read));
  }
}

const key = (): HTMLElement =>
  h(
    "p.key",
    h("span", h("i.swatch", { "data-state": "new" }), "new"),
    h("span", h("i.swatch", { "data-state": "cached" }), "read from the cache"),
    h("span", h("i.swatch", { "data-state": "evicted" }), "evicted"),
  );

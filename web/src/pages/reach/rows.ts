// The text, and below it a row of bars for each network: how much each output changes when the chosen token is replaced.
import { h, svg } from "../../core/dom";
import { type Effects, back, inWords, tokensBack } from "./effect";
import type { ReachState } from "./state";

const [TOP, ROW, GAP, LEAST] = [34, 56, 26, 1e-12]; // pixels; a smaller effect has no bar
const RULES: [number, string][] = [[1, "1"], [1e-4, "10⁻⁴"], [1e-8, "10⁻⁸"]]; // prettier-ignore
const LETTERS = 11; // pixels of a token from which on its symbol fits

/** Height of a bar between 0 and 1: each power of ten is as high. */
export const level = (effect: number): number => (effect > LEAST ? Math.min(1, 1 - Math.log10(effect) / Math.log10(LEAST)) : 0);

export function rows(effects: Effects, now: () => ReachState, choose: (change: Partial<ReachState>) => void) {
  const { record } = effects;
  const element = h("div.rows", {
    tabindex: 0,
    role: "slider",
    "aria-label": "the token that is replaced; arrow keys choose another",
    "aria-valuemin": 0,
  });
  const size = () => (element.clientWidth || 640) / now().length;

  const under = (event: PointerEvent): void => {
    const token = Math.floor((event.clientX - element.getBoundingClientRect().left) / size());
    if (token >= 0 && token < now().length && token !== now().token) choose({ token });
  };
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    under(event);
  });
  element.addEventListener("pointermove", (event) => element.hasPointerCapture(event.pointerId) && under(event));
  element.addEventListener("keydown", (event) => {
    const { token, length } = now();
    const steps: Record<string, number> = { ArrowLeft: token - 1, ArrowDown: token - 1, ArrowRight: token + 1, ArrowUp: token + 1, PageDown: token - 8, PageUp: token + 8, Home: 0, End: length - 1 }; // prettier-ignore
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose({ token: Math.max(0, Math.min(length - 1, steps[event.key])) });
  });

  function draw(): void {
    const state = now();
    const { length, token, weights } = state;
    const [wide, width] = [size(), element.clientWidth || 640];
    const height = TOP + record.networks.length * (ROW + GAP);
    const text = Array.from({ length }, (_, i) =>
      svg(
        "g.token",
        { "data-chosen": String(i === token) },
        svg("rect", { x: i * wide + 0.5, y: 4, width: Math.max(wide - 1, 1), height: 22, rx: 3 }),
        (wide >= LETTERS || i === token) &&
          svg("text", { x: (i + 0.5) * wide, y: 20, "text-anchor": "middle" }, record.symbols[record.example[i]]),
      ),
    );
    const bars = record.networks.map((network, row) => {
      const base = TOP + row * (ROW + GAP) + GAP + ROW - 6;
      return svg(
        "g.network",
        { "data-look": row },
        svg("text.title", { x: 0, y: base - ROW + 2 }, network.title),
        svg("line.base", { x1: 0, x2: width, y1: base, y2: base }),
        RULES.map(([effect, text]) => {
          const y = base - level(effect) * (ROW - 8);
          return [svg("line.rule", { x1: 0, x2: width, y1: y, y2: y }), svg("text.tick", { x: 2, y: y + 11 }, text)];
        }).flat(),
        Array.from({ length }, (_, j) => {
          const tall = level(effects.at(network.name, weights, token, j)) * (ROW - 8);
          return tall > 0 && svg("rect.bar", { x: j * wide + 0.5, y: base - tall, width: Math.max(wide - 1, 1), height: tall });
        }),
      );
    });
    element.replaceChildren(
      svg(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
        svg("rect.column", { x: token * wide, y: 0, width: wide, height }),
        text,
        bars,
      ),
    );
    element.setAttribute("aria-valuemax", String(length - 1));
    element.setAttribute("aria-valuenow", String(token));
    element.setAttribute("aria-valuetext", `token ${token}, ${tokensBack(back(state))}`);
  }
  let before = 0;
  new ResizeObserver(() => {
    if (element.clientWidth !== before) draw();
    before = element.clientWidth;
  }).observe(element);
  return { element, draw };
}

/** One sentence for each network: its last output. */
export function sentences(effects: Effects, state: ReachState): HTMLElement[] {
  return effects.record.networks.map((network, row) => {
    const effect = effects.last(network.name, state);
    return h(
      "p",
      { "data-look": row, "data-network": network.name, "data-effect": effect },
      h("b", network.title),
      `: the last output ${inWords(effect)}.`,
    );
  });
}

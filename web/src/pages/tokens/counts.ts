// Tokenizations side by side: the number of tokens, the numbers in each, and the pairs that attention compares.
import { h } from "../../core/dom";

export interface Row {
  name: string;
  tokens: number;
  numbers: number; // of a token
  pressed: boolean;
  pick(): void;
}

/** seconds: the duration of the input; without it there is no rate. */
export function counts(title: string, seconds?: number): { element: HTMLElement; draw(rows: Row[]): void } {
  const body = h("tbody");
  const heads = ["tokenization", "tokens N", seconds && "tokens per second", "numbers per token", "total numbers", "pairs N²"].filter((text) => text !== undefined); // prettier-ignore
  const element = h(
    "section.part.counts",
    { "data-part": "counts" },
    h("h2", title),
    h("p.quiet", "Attention compares every token with every token: N² pairs in each head. The bars are logarithmic."),
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": title }, h("table", h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text)))), body)), // prettier-ignore
  );
  return {
    element,
    draw(rows) {
      const most = Math.log10(Math.max(10, ...rows.map(({ tokens }) => tokens * tokens)));
      body.replaceChildren(
        ...rows.map(({ name, tokens, numbers, pressed, pick }) => {
          const share = Math.log10(Math.max(1, tokens * tokens)) / most;
          const button = h("button", { type: "button", "aria-pressed": String(pressed), onclick: pick }, name);
          return h(
            "tr",
            { "data-open": String(pressed) },
            h("th", { scope: "row" }, button),
            h("td", whole(tokens)),
            seconds !== undefined && h("td", whole(tokens / seconds)),
            h("td", whole(numbers)),
            h("td", whole(tokens * numbers)),
            h("td.far", { style: `--share:${share.toFixed(3)}` }, whole(tokens * tokens)),
          );
        }),
      );
    },
  };
}

/** 1,234, or 12.5. */
export const whole = (value: number): string =>
  (Number.isInteger(value) || value >= 100 ? Math.round(value) : Number(value.toPrecision(3))).toLocaleString("en");

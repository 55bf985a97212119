// The chosen weight and how it is computed: products of a query and a key, their sum, scale, bias and softmax, and the weighted
// value. Every q and k can be edited.
import { digits } from "../../core/format";
import { button, h } from "../../core/dom";
import type { View } from "./detail";
import { named } from "../../core/labels";
import type { HeadsPage } from "./page";
import { percent, formatWeight } from "./rounded";
import { most, type Score } from "./weights";

const FEW = 6; // products that are printed at first

export function cell(page: HeadsPage): { element: HTMLElement; draw(view: View, row: number, column: number): void } {
  let [every, brings] = [false, false];
  let last: [View, number, number] | undefined;
  const element = h("section.number", { "aria-label": "one weight, step by step" });

  function draw(view: View, row: number, column: number): void {
    last = [view, row, column];
    const key = element.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
    const score = view.now.score(row, column);
    const before = view.now === view.before || view.models ? undefined : view.before.row(row)[column];
    element.replaceChildren(
      h("h3", "One weight, step by step"),
      h("p.pair-of", h("span.query", "query ", named(view.asks, row)), h("span.key", "key ", named(view.answers, column))),
      ...(score.hidden ? [h("p.notice", `Masked: ${score.hidden}. The weight is 0, whatever the query and the key are.`)] : []),
      h("div.ladder", steps(view, score), result(score, before, view.now.given.about)),
      ...(score.products ? [products(view, score, row, column)] : view.now.given.about ? [] : [h("p.quiet", view.found.reason || "The record has no queries and keys of this head: the weights are those of the model.")]), // prettier-ignore
      ...(view.now.given.about ? [h("p.quiet.left-out", leftOut(view))] : []),
      ...(view.now.given.v ? [brought(view, row, column, score.weight)] : []),
    );
    if (key) [...element.querySelectorAll<HTMLElement>("[data-key]")].find((one) => one.dataset.key === key)?.focus({ preventScroll: true }); // prettier-ignore
  }

  function products({ layer, head, found, models, now, before }: View, score: Score, row: number, column: number): HTMLElement {
    const { width } = now.given;
    const sizes = score.products!.map(Math.abs);
    const largest = Math.max(...sizes) || 1;
    const shown = every ? Array.from({ length: width }, (_, i) => i) : most(sizes, FEW);
    const rest = score.sum - shown.reduce((sum, i) => sum + score.products![i], 0);
    const field = (of: "q" | "k", token: number, feature: number) => {
      const at = token * width + feature;
      if (models || page.record.layers[layer] !== found) return h("td", digits(now[of]![at])); // the other model is not edited
      const [value, given] = [now[of]![at], before[of]![at]];
      const write = () => {
        const number = input.value.trim() === "" ? given : Number(input.value);
        const others = page.state.edits.filter((e) => !(e.layer === layer && e.head === head && e.of === of && e.token === token && e.feature === feature)); // prettier-ignore
        page.set({
          edits:
            Number.isFinite(number) && number !== given ? [...others, { layer, head, of, token, feature, value: number }] : others,
        });
      };
      const input = h<HTMLInputElement>("input", { type: "number", step: "any", value: plain(value), "aria-label": `${of} of feature ${feature}`, "data-key": `${of}${feature}`, "data-changed": String(value !== given), title: value === given ? "Enter another number" : `Original: ${digits(given)}. Clear the field to restore it`, onchange: write }); // prettier-ignore
      return h("td", input);
    };
    return h(
      "div.products",
      h("h4", every ? `All ${width} products` : `The largest of ${width} products`),
      h(
        "div.scroll",
        { tabindex: 0, role: "region", "aria-label": "products of query and key" },
        h(
          "table",
          h("caption.spoken", "Products of query and key"),
          h(
            "thead",
            h(
              "tr",
              ["feature", "q", "k", "q × k"].map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          h(
            "tbody",
            shown.map((i) =>
              h(
                "tr",
                h("th", { scope: "row" }, String(i)),
                field("q", row, i),
                field("k", column, i),
                h("td.product", { style: `--share:${(sizes[i] / largest).toFixed(3)}`, "data-sign": score.products![i] < 0 ? "less" : "more" }, digits(score.products![i])), // prettier-ignore
              ),
            ),
            !every && width > shown.length && h("tr.rest", h("th", { scope: "row", colspan: 3 }, `the other ${width - shown.length}`), h("td.product", { style: "--share:0" }, digits(rest))), // prettier-ignore
          ),
        ),
      ),
      width > FEW && button(every ? "The largest only" : `All ${width}`, "How many products are shown", () => ((every = !every), again()), { "data-key": "every" }), // prettier-ignore
    );
  }

  /** The weighted value: the weight times the value of the key token. */
  function brought({ now, found }: View, row: number, column: number, weight: number): HTMLElement {
    const { v, values } = now.given;
    const own = v!.subarray(column * values, (column + 1) * values);
    const size = (numbers: Float64Array) => Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0));
    const output = now.output(row)!;
    const place = h("div");
    const fill = () => {
      const first = most(own.map((x) => Math.abs(x)), values); // prettier-ignore
      place.replaceChildren(
        h(
          "div.scroll",
          { tabindex: 0, role: "region", "aria-label": "weight times values" },
          h(
            "table",
            h("caption.spoken", "Weight times values"),
            h(
              "thead",
              h(
                "tr",
                ["feature", "v", "weight × v", "sum over all keys"].map((name) => h("th", { scope: "col" }, name)),
              ),
            ),
            h("tbody", first.map((j) => h("tr", h("th", { scope: "row" }, String(j)), h("td", digits(own[j])), h("td", digits(weight * own[j])), h("td", digits(output[j]))))), // prettier-ignore
          ),
        ),
      );
    };
    const unfold = h<HTMLDetailsElement>(
      "details.contribution",
      { open: brings, ontoggle: () => { brings = unfold.open; if (brings && !place.firstChild) fill(); } }, // prettier-ignore
      h(
        "summary",
        "Contribution to the output: ",
        h("b", `weight × v, norm ${digits(Number((weight * size(own)).toPrecision(4)))}`),
      ),
      h("p.quiet", `The sum over all keys has norm ${digits(Number(size(output).toPrecision(4)))}${found.reconstruction_error != null ? "; its difference from the model's own output is given above" : ""}.`), // prettier-ignore
      place,
    );
    if (brings) fill();
    return unfold;
  }

  const again = () => last && draw(...last);
  return { element, draw };
}

/** From the sum of products to the softmax, one line a step. */
function steps({ now }: View, score: Score): HTMLElement[] {
  const { scale, cap, width, bias, about } = now.given;
  if (!score.products) return [];
  const printed = (value: number) => rounded(value, about);
  const added = (value: number): string => (value < 0 ? `− ${printed(-value)}` : `+ ${printed(value)}`);
  const step = (what: string, how: string, value: number, key: string) =>
    h("div.rung", { "data-step": key }, h("span.what", what), h("span.how", how), h("b", printed(value)));
  const { temperature } = now.changes;
  return [
    step("q · k", `sum of ${width} products`, score.sum, "sum"),
    step("× scale", `${printed(score.sum)} × ${digits(scale)}`, score.scaled, "scaled"),
    ...(cap
      ? [step("capped", `soft cap: ${digits(cap)} · tanh(${printed(score.scaled)} / ${digits(cap)})`, score.capped, "capped")]
      : []),
    ...(bias ? [step("+ bias", now.changes.bias ? `${printed(score.capped)} ${added(score.bias)}` : "left out", score.score, "bias")] : []), // prettier-ignore
    ...(temperature !== 1
      ? [step("÷ temperature", `${printed(score.score)} / ${temperature}`, score.exponent, "temperature")]
      : []),
    ...(score.hidden ? [] : [step("exp", `exp(${printed(score.exponent)} ${added(-score.top)}): the row's maximum is subtracted`, Math.exp(score.exponent - score.top), "power")]), // prettier-ignore
    step("÷ row sum", `over all unmasked keys${score.sink === undefined ? "" : `, with ${printed(score.sink)} for the sink`}`, score.total, "total"), // prettier-ignore
  ];
}

const result = (score: Score, before: number | undefined, about: number): HTMLElement =>
  h(
    "div.rung.result",
    { "data-step": "weight" },
    h("span.what", "weight"),
    h(
      "span.how",
      before === undefined
        ? about && score.weight
          ? `rounded, relative error up to ${percent(about)}`
          : ""
        : h("span.was", `was ${formatWeight(before, about)}, now ${rounded(score.weight - before, about, true)}`),
    ),
    h("b", formatWeight(score.weight, about)),
  );

/** What a compact file leaves out, and how exact its numbers are. */
const leftOut = ({ now }: View): string =>
  now.given.q
    ? `This is a compact file: q and k are quantized to 255 steps a row, so the relative error of a weight is up to ${percent(now.given.about)}. Values are left out.`
    : `This is a compact file: it keeps the weights only, with a relative error up to ${percent(now.given.about)} and none below 1e-9. Queries, keys, their products and values are left out; a file without --compact, or the served page, has them.`;

/** A number computed from rounded ones, with four digits. */
const rounded = (value: number, about: number, plus = false): string =>
  about ? signed(Number(value.toPrecision(4)), plus) : signed(value, plus);

const signed = (value: number, plus = false): string => (plus && value >= 0 ? `+${digits(value)}` : digits(value));

/** A number in a field. */
const plain = (value: number): string => String(Number(value.toPrecision(7)));

// Cost against length: lines of one layer's parts, and where attention overtakes the feed-forward.
import type { CostPart } from "../../core/contract";
import { section } from "../../charts/section";
import type { Mark, Picture, Series, Upright } from "../../charts/series";
import { h } from "../../core/dom";
import { partInk } from "./bars";
import { amount, crossing, letters, type Model, whole } from "./formula";
import type { CostPage } from "./page";
import { chosen } from "./state";

interface Curve {
  name: string;
  part: string;
  parts: CostPart[];
  look: number;
}

/** The lines: attention, its two products, the feed-forward. */
function curves(page: CostPage): Curve[] {
  const counted = page.cost.parts.filter(({ per_layer: layers, counted }) => layers !== false && counted !== false);
  const of = (group: string) => counted.filter((work) => work.group === group);
  const products = of("attention").filter(({ parameters }) => !parameters?.length);
  return [
    { name: "attention", part: "projections", parts: of("attention"), look: 0 },
    { name: "QKᵀ and AV only", part: "scores", parts: products, look: 1 },
    { name: "feed-forward", part: "feed-forward", parts: of("feed-forward"), look: 0 },
  ];
}

const sum = (parts: CostPart[], model: Model): bigint =>
  parts.reduce((so, { full_pass: whole }) => so + amount(whole ?? [], model), 0n);

/** Powers of two from 8 to far beyond the last crossing. */
export function lengths(sizes: Record<string, number>, far: number): number[] {
  const last = Math.ceil(Math.log2(Math.max(8 * sizes.D, 4 * sizes.N, 2 * far, 256)));
  return Array.from({ length: last - 2 }, (_, i) => 2 ** (i + 3));
}

export function againstLength(page: CostPage): { element: HTMLElement; draw(): void } {
  const crossings = h("div.crossings");
  const shown = section({
    id: "length",
    file: "equiscope-cost-length",
    title: "Where attention overtakes the feed-forward",
    hint: "Point at a line or use the arrow keys: left and right along the length, up and down between lines.",
    before: crossings,
    picture,
    table: () => {
      const model = chosen(page.cost, page.state);
      const lines = curves(page);
      const far = crossing(page.cost, model, false).at ?? 0;
      return {
        heads: [
          "tokens",
          ...lines.map(
            ({ name, parts }) =>
              `${name}, ${letters(
                parts.flatMap(({ full_pass: whole }) => whole ?? []),
                model,
              )}`,
          ),
        ],
        rows: lengths(model.sizes, far).map((N) => [whole(N), ...lines.map(({ parts }) => whole(sum(parts, { ...model, sizes: { ...model.sizes, N } })))]), // prettier-ignore
      };
    },
  });
  function picture(): Picture {
    const model = chosen(page.cost, page.state);
    const [both, alone] = [true, false].map((projections) => crossing(page.cost, model, projections));
    const { D, N } = model.sizes;
    const ns = lengths(model.sizes, alone.at ?? 0);
    const series = curves(page).map(({ name, part, parts, look }): Series => {
      const marks = [...new Set([...ns, N])]
        .sort((a, b) => a - b)
        .map((length): Mark => {
          const value = sum(parts, { ...model, sizes: { ...model.sizes, N: length } });
          return {
            x: length,
            y: Number(value),
            sentence: `${name} at ${whole(length)} tokens: ${whole(value)} multiply-adds per layer`,
          };
        });
      return { name, look, ink: partInk(part), marks, line: "marks" };
    });
    const uprights: Upright[] = [{ x: N, text: `here: ${whole(N)}`, here: true }];
    for (const [{ at }, text] of [
      [both, "attention"],
      [alone, "QKᵀ and AV only"],
    ] as const)
      // prettier-ignore
      if (at) uprights.push({ x: at, text: `${text}: N = ${length(at)} = ${multiple(at, D)} D` });
    return { series, uprights, x: { title: "tokens N", log: true, air: 0.02 }, y: { title: "multiply-adds of one layer", log: true, air: 0.04 } }; // prettier-ignore
  }
  const draw = () => {
    crossings.replaceChildren(...overtaking(page));
    shown.draw();
  };
  return { element: shown.element, draw };
}

const length = (at: number): string => (at < 100 ? String(Number(at.toFixed(1))) : whole(Math.round(at)));
const multiple = (at: number, of: number): string => String(Number((at / of).toPrecision(3)));

/** The crossings with the numbers of this model. */
function overtaking(page: CostPage): HTMLElement[] {
  const model = chosen(page.cost, page.state);
  const { D, N } = model.sizes;
  const [both, alone] = [true, false].map((projections) => crossing(page.cost, model, projections));
  const line = (name: string, { at, forward, maps, pairs }: typeof both) => {
    const enclosed = (text: string) => (text.includes(" ") ? `(${text})` : text);
    const more = maps.length ? `(${letters(forward, model)} − ${enclosed(letters(maps, model))})` : letters(forward, model);
    const numbers = `${whole(amount(forward, model) - amount(maps, model))} / ${whole(amount(pairs, model))}`;
    const found = at === undefined ? "costs more at every length" : `N = ${length(at)} = ${multiple(at, D)} D`;
    const formula = at === undefined ? more : `${more} / ${letters(pairs, model)}`;
    return h("div", h("dt", name), h("dd", h("b", found), h("span.arithmetic", `${formula} = ${at === undefined ? numbers.split(" /")[0] : numbers}`))); // prettier-ignore
  };
  const side = ({ at }: typeof both) => (at === undefined || N > at ? "beyond" : N === at ? "at" : "before");
  const here = side(both) === side(alone) ? `${side(both)} both` : `${side(both)} the first and ${side(alone)} the second`;
  return [
    h("p", `Attention grows with N², the feed-forward with N. They cost the same at the crossings below; at ${whole(N)} tokens this model is ${here}.`), // prettier-ignore
    h("dl.facts", line("attention with its projections", both), line("QKᵀ and AV only", alone)),
  ];
}

// The selection on the page of cost.
import type { Cost, Preset, Size } from "../../core/contract";
import { choice, field, type Field, flag, schema, type Schema, whole } from "../../core/state";
import { divisors, type Model, type Sizes, whole as written } from "./formula";

export const FORMATS = [4, 2, 1] as const; // bytes of a number
export const VIEWS = ["work", "tokens", "heads"] as const; // the x axis of the timings

export interface CostState {
  model: string; // the preset
  sizes: Sizes;
  gate: boolean;
  bytes: (typeof FORMATS)[number];
  view: (typeof VIEWS)[number];
}

export const preset = ({ presets }: Cost, name: string): Preset => presets.find((one) => one.name === name) ?? presets[0];

/** The chosen model: a preset with other sizes. */
export function chosen(cost: Cost, { model, sizes, gate }: CostState): Model {
  const has = preset(cost, model).features.filter((one) => one !== "gate");
  return { sizes, has: gate ? [...has, "gate"] : has };
}

/** Whether sizes are not those of the preset. */
export const changed = (cost: Cost, state: CostState): boolean => {
  const { sizes, features: has } = preset(cost, state.model);
  return state.gate !== has.includes("gate") || cost.sizes.some(({ letter }) => sizes[letter] !== state.sizes[letter]);
};

export const stateOf = (cost: Cost): Schema<CostState> =>
  schema<CostState>({
    model: field(choice(cost.presets.map(({ name }) => name)), cost.presets[0].name),
    sizes: sizesOf(cost),
    gate: field(flag(), ({ model }) => preset(cost, model).features.includes("gate")),
    bytes: field(choice(FORMATS), 2),
    view: field(choice(VIEWS), "work", { history: "back" }),
  });

/** A letter for each size that is not the preset's. What is invalid is left out, and heads that do not divide are adjusted. */
const sizesOf = (cost: Cost): Field<Sizes, CostState> => ({
  history: "undo",
  initial: ({ model }) => ({ ...preset(cost, model).sizes }),
  write(sizes, link, _, { model }) {
    const begin = preset(cost, model).sizes;
    for (const { letter } of cost.sizes) if (sizes[letter] !== begin[letter]) link.set(letter, String(sizes[letter]));
  },
  read(link, _, { model }) {
    const sizes = { ...preset(cost, model).sizes };
    for (const { letter, low, high } of cost.sizes) sizes[letter] = whole(low, high).read(link.get(letter) ?? "") ?? sizes[letter];
    return withDividingHeads(sizes).sizes;
  },
});

const inside = ({ low, high }: Size, value: number): boolean => value >= low && value <= high;

/** Heads that divide the width, and key/value heads that divide those. changes: a sentence for each adjustment. */
export function withDividingHeads(sizes: Sizes): { sizes: Sizes; changes: string[] } {
  const out = { ...sizes };
  const changes: string[] = [];
  out.H = nearest(divisors(out.D), out.H);
  if (out.H !== sizes.H)
    changes.push(`${written(sizes.H)} heads do not divide a width of ${written(out.D)}: now ${written(out.H)}.`);
  out.G = sizes.G === sizes.H ? out.H : nearest(divisors(out.H), out.G);
  if (out.G !== sizes.G && sizes.G !== sizes.H)
    changes.push(`${written(sizes.G)} key/value heads do not divide ${written(out.H)} heads: now ${written(out.G)}.`);
  return { sizes: out, changes };
}

/** Set one size and adjust what depends on it: the feed-forward keeps its multiple of the width, heads divide it. */
export function sized(sizes: Sizes, letter: string, value: number): { sizes: Sizes; changes: string[] } {
  const next = { ...sizes, [letter]: value };
  if (letter === "D") next.F = Math.max(1, Math.round((sizes.F / sizes.D) * value));
  if (letter === "H" && sizes.G === sizes.H) next.G = value;
  return withDividingHeads(next);
}

/** Why a number cannot be this size; empty where it can. */
export function refusal(size: Size, value: number, sizes: Sizes): string {
  if (!Number.isInteger(value) || !inside(size, value))
    return `${size.name}: a whole number from ${written(size.low)} to ${written(size.high)}.`;
  if (!"HG".includes(size.letter)) return "";
  const [owner, who, of] = size.letter === "H" ? [sizes.D, "heads", `a width of ${written(sizes.D)}`] : [sizes.H, "key/value heads", `${written(sizes.H)} heads`]; // prettier-ignore
  if (owner % value === 0) return "";
  const can = divisors(owner);
  const near = [can.filter((one) => one < value).at(-1), can.find((one) => one > value)].filter((one) => one !== undefined);
  return `${written(value)} ${who} do not divide ${of}. Take ${near.map(written).join(" or ")}.`;
}

/** The nearest of some numbers by ratio. */
export const nearest = (of: number[], value: number): number =>
  of.reduce((best, one) => (Math.abs(Math.log(one / value)) < Math.abs(Math.log(best / value)) - 1e-12 ? one : best));

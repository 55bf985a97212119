// The selection on the page of cost. It is the link to the page.
import type { Cost, Preset, Size } from "../../core/contract";
import { divisors, type Model, type Sizes, whole } from "./formula";

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

export function begin(cost: Cost, name = cost.presets[0].name): CostState {
  const { sizes, features: has, name: model } = preset(cost, name);
  return { model, sizes: { ...sizes }, gate: has.includes("gate"), bytes: 2, view: "work" };
}

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

export function toHash(cost: Cost, state: CostState): string {
  const { sizes, features: has } = preset(cost, state.model);
  const parts = new URLSearchParams();
  if (state.model !== cost.presets[0].name) parts.set("model", state.model);
  for (const { letter } of cost.sizes) if (state.sizes[letter] !== sizes[letter]) parts.set(letter, String(state.sizes[letter]));
  if (state.gate !== has.includes("gate")) parts.set("gate", state.gate ? "on" : "off");
  if (state.bytes !== 2) parts.set("bytes", String(state.bytes));
  if (state.view !== "work") parts.set("view", state.view);
  return parts.toString();
}

/** The state that a fragment describes; what is invalid is left out, and heads that do not divide are adjusted. */
export function fromHash(cost: Cost, hash: string): CostState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = begin(cost, parts.get("model") ?? undefined);
  for (const size of cost.sizes) {
    const text = parts.get(size.letter) ?? "";
    if (/^\d{1,9}$/.test(text) && inside(size, Number(text))) state.sizes[size.letter] = Number(text);
  }
  state.sizes = withDividingHeads(state.sizes).sizes;
  if (parts.has("gate")) state.gate = parts.get("gate") === "on";
  state.bytes = FORMATS.find((one) => String(one) === parts.get("bytes")) ?? 2;
  state.view = VIEWS.find((one) => one === parts.get("view")) ?? "work";
  return state;
}

const inside = ({ low, high }: Size, value: number): boolean => value >= low && value <= high;

/** Heads that divide the width, and key/value heads that divide those. changes: a sentence for each adjustment. */
export function withDividingHeads(sizes: Sizes): { sizes: Sizes; changes: string[] } {
  const out = { ...sizes };
  const changes: string[] = [];
  out.H = nearest(divisors(out.D), out.H);
  if (out.H !== sizes.H) changes.push(`${whole(sizes.H)} heads do not divide a width of ${whole(out.D)}: now ${whole(out.H)}.`);
  out.G = sizes.G === sizes.H ? out.H : nearest(divisors(out.H), out.G);
  if (out.G !== sizes.G && sizes.G !== sizes.H)
    changes.push(`${whole(sizes.G)} key/value heads do not divide ${whole(out.H)} heads: now ${whole(out.G)}.`);
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
    return `${size.name}: a whole number from ${whole(size.low)} to ${whole(size.high)}.`;
  if (!"HG".includes(size.letter)) return "";
  const [owner, who, of] = size.letter === "H" ? [sizes.D, "heads", `a width of ${whole(sizes.D)}`] : [sizes.H, "key/value heads", `${whole(sizes.H)} heads`]; // prettier-ignore
  if (owner % value === 0) return "";
  const can = divisors(owner);
  const near = [can.filter((one) => one < value).at(-1), can.find((one) => one > value)].filter((one) => one !== undefined);
  return `${whole(value)} ${who} do not divide ${of}. Take ${near.map(whole).join(" or ")}.`;
}

/** The nearest of some numbers by ratio. */
export const nearest = (of: number[], value: number): number =>
  of.reduce((best, one) => (Math.abs(Math.log(one / value)) < Math.abs(Math.log(best / value)) - 1e-12 ? one : best));

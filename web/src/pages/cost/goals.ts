// What the exercises of the book ask of this page, marked by its own formulas.
import type { Marked } from "../../core/goals";
import { amount, percent, total, whole } from "./formula";
import { memoryStores } from "./memory";
import type { CostPage } from "./page";
import { chosen, preset } from "./state";

const NEAR = 0.02; // relative difference of two costs that count as equal

/** Sizes that are not those of the preset, without those named. */
const others = ({ cost, state }: CostPage, but: string[]): string[] => {
  const { sizes } = preset(cost, state.model);
  return cost.sizes.filter(({ letter }) => !but.includes(letter) && sizes[letter] !== state.sizes[letter]).map(({ name }) => name);
};
const back = (names: string[]): Marked => ({ right: false, says: `Put back: ${names.join(", ")}.` });

function group(page: CostPage, name: string): bigint {
  const model = chosen(page.cost, page.state);
  const parts = page.cost.parts.filter((part) => part.group === name && part.counted !== false);
  return parts.reduce((sum, part) => sum + total(part, "full_pass", model), 0n);
}

/** Bytes of the KV cache, and what it would be with the preset's sizes. */
function cache({ cost, state }: CostPage): [number, number] {
  const numbers = cost.memory.find(({ name }) => name === "KV cache")!.numbers;
  const model = chosen(cost, state);
  return [model, { ...model, sizes: preset(cost, state.model).sizes }].map((one) => Number(amount(numbers, one))) as [
    number,
    number,
  ];
}

export const goals: Record<string, (page: CostPage) => Marked> = {
  "attention-equals-feedforward"(page) {
    const changed = others(page, ["N"]);
    if (changed.length) return back(changed);
    const [attention, feedforward] = [group(page, "attention"), group(page, "feed-forward")];
    const share = percent(attention, attention + feedforward);
    const right = Math.abs(Number(attention) / Number(feedforward) - 1) < NEAR;
    const says = `With N = ${whole(page.state.sizes.N)}, attention takes ${share} of what both take.`;
    return { right, says };
  },

  "smaller-cache"(page) {
    const changed = others(page, ["G", "H"]);
    if (changed.length) return back(changed);
    const [now, before] = cache(page);
    const times = before / now;
    return { right: times >= 4, says: `The cache holds ${whole(BigInt(now))} numbers: ${times === 1 ? "as many as before" : `${Number(times.toPrecision(3))} times fewer`}.` }; // prettier-ignore
  },

  "cache-exceeds-weights"(page) {
    const changed = others(page, ["N"]);
    if (changed.length) return back(changed);
    const stores = memoryStores(page);
    const bytes = (name: string) => stores.find((one) => one.name === name)?.bytes ?? 0n;
    const [weights, kept] = [bytes("parameters"), bytes("KV cache")];
    const says = `With ${whole(page.state.sizes.N)} tokens the cache takes ${percent(kept, weights)} of the memory of the weights.`;
    return { right: kept > weights, says };
  },
};

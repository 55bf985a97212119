// Memory: parameters, the KV cache, attention matrices against a fused kernel; and generation with the cache or without.
import { saving } from "../../charts/section";
import { h, select } from "../../core/dom";
import { all, amount, brief, letters, operands, stored, together, total, whole } from "./formula";
import type { CostPage } from "./page";
import { chosen, FORMATS } from "./state";

const NAMES: Record<number, string> = { 4: "float32, 4 bytes", 2: "bfloat16, 2 bytes", 1: "8 bits, 1 byte" };

interface Store {
  name: string;
  about: string;
  formula: string;
  bytes: bigint;
}

/** The bytes of each store. */
export function memoryStores(page: CostPage): Store[] {
  const model = chosen(page.cost, page.state);
  const parameters = all(page.cost, "parameters", model);
  const size = page.state.bytes;
  const stores = page.cost.memory.filter(({ name }) => name !== "KV cache" || model.has.includes("causal"));
  return [
    { name: "parameters", about: "the learned weights", formula: `${whole(parameters)} × ${size} = ${whole(parameters * BigInt(size))} bytes`, bytes: parameters * BigInt(size) }, // prettier-ignore
    ...stores.map(({ name, about, numbers, bytes }): Store => {
      const each = bytes ?? size;
      const total = amount(numbers, model) * BigInt(each);
      return { name, about, formula: `${letters(numbers, model)} × ${each} = ${operands(numbers, model)} × ${each} = ${whole(total)} bytes`, bytes: total }; // prettier-ignore
    }),
  ];
}

export function memory(page: CostPage): { element: HTMLElement; draw(): void } {
  const list = h("ul.stores");
  const format = h("div.choices");
  const element = h(
    "section.part.memory",
    { "data-part": "memory" },
    h("div.head", h("h2", "Memory"), saving(() => list, "equiscope-cost-memory", "Memory")), // prettier-ignore
    format,
    list,
  );
  const draw = () => {
    const rows = memoryStores(page);
    const most = rows.reduce((so, { bytes }) => (bytes > so ? bytes : so), 1n);
    const chooser = format.querySelector("select");
    if (chooser) chooser.value = String(page.state.bytes);
    else format.append(select("Numbers as", FORMATS.map((one) => ({ name: String(one), title: NAMES[one] })), String(page.state.bytes), (name) => page.set({ bytes: FORMATS.find((one) => String(one) === name) ?? 2 }))); // prettier-ignore
    list.replaceChildren(
      ...rows.map(({ name, about, formula, bytes }) =>
        h(
          "li",
          { "data-store": name },
          h("span.name", name),
          h("b", stored(bytes)),
          h("span.bar", h("i", { style: `width: max(2px, ${((Number(bytes) / Number(most)) * 100).toFixed(3)}%)` })),
          h("span.arithmetic", formula),
          h("span.quiet", about),
        ),
      ),
    );
  };
  return { element, draw };
}

/** One more token, with the cache and without. */
export function generation(page: CostPage): { element: HTMLElement; draw(): void } {
  const body = h("div");
  const element = h("section.part.generation", { "data-part": "generation" }, h("h2", "Generating one more token"), body);
  const draw = () => {
    const model = chosen(page.cost, page.state);
    const { N, B } = model.sizes;
    if (!model.has.includes("causal")) {
      body.replaceChildren(h("p", "This model is bidirectional: a new token changes every earlier state, so nothing can be cached and each output costs a whole pass.")); // prettier-ignore
      return;
    }
    const [step, pass] = [all(page.cost, "decoding_step", model), all(page.cost, "full_pass", model)];
    const grows = page.cost.parts
      .filter(({ decoding_step: step, counted }) => counted !== false && step?.some(({ symbols: of }) => of.includes("N")))
      .reduce((sum, work) => sum + total(work, "decoding_step", model), 0n);
    const cache = page.cost.memory.find(({ name }) => name === "KV cache");
    const reads = (all(page.cost, "parameters", model) + amount(cache?.numbers ?? [], model)) * BigInt(page.state.bytes);
    const [one, every] = [together(page.cost, "decoding_step", model), together(page.cost, "full_pass", model)];
    const facts: [string, string, string[], string][] = [
      ["with the KV cache", `${whole(step)} multiply-adds`, [one.letters, one.operands], `${whole(grows)} of them grow with the ${whole(N)} cached tokens`], // prettier-ignore
      ["without", `${whole(pass)} multiply-adds`, [every.letters, every.operands], `a whole pass: ${brief(Math.round(Number(pass) / Number(step)))} times as many`], // prettier-ignore
      ["memory read", stored(reads), [], `every parameter and the whole cache once: ${(Number(step) / Number(reads)).toPrecision(2)} multiply-adds per byte, against ${brief(Math.round(Number(pass) / Number(reads)))} in a pass`], // prettier-ignore
    ];
    body.replaceChildren(
      h("p", `With ${whole(N)} tokens in all${B > 1 ? ` in each of ${whole(B)} sequences` : ""}, the last one costs:`),
      h("dl.facts", facts.map(([name, value, lines, why]) => h("div", h("dt", name), h("dd", h("b", value), lines.map((line, i) => h("span.arithmetic", i ? `= ${line}` : line)), h("span.quiet", why))))), // prettier-ignore
    );
  };
  return { element, draw };
}

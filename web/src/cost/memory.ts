// What has to be held: weights, the cache, tables of attention weights against a fused kernel; and writing a text with the cache or without.
import { h, select } from "../dom";
import { all, amount, brief, letters, operands, stored, together, total, whole } from "./formula";
import { saving } from "./plot_section";
import type { Reading } from "./page";
import { chosen, FORMATS } from "./state";

const NAMES: Record<number, string> = { 4: "float32, 4 bytes", 2: "bfloat16, 2 bytes", 1: "8 bits, 1 byte" };

interface Held {
  name: string;
  about: string;
  formula: string;
  bytes: bigint;
}

/** How many bytes each thing takes. */
export function held(page: Reading): Held[] {
  const model = chosen(page.cost, page.state);
  const parameters = all(page.cost, "parameters", model);
  const size = page.state.bytes;
  const stores = page.cost.stores.filter(({ name }) => name !== "cache" || model.has.includes("causal"));
  return [
    { name: "weights", about: "what the model has learned", formula: `${whole(parameters)} × ${size} = ${whole(parameters * BigInt(size))} bytes`, bytes: parameters * BigInt(size) }, // prettier-ignore
    ...stores.map(({ name, about, numbers, bytes }): Held => {
      const each = bytes ?? size;
      const total = amount(numbers, model) * BigInt(each);
      return { name, about, formula: `${letters(numbers, model)} × ${each} = ${operands(numbers, model)} × ${each} = ${whole(total)} bytes`, bytes: total }; // prettier-ignore
    }),
  ];
}

export function memory(page: Reading): { element: HTMLElement; draw(): void } {
  const list = h("ul.held");
  const format = h("div.choices");
  const element = h(
    "section.part.memory",
    h("div.head", h("h2", "What has to be held in memory"), saving(() => list, "equiscope-cost-memory", "What has to be held in memory")), // prettier-ignore
    format,
    list,
  );
  const draw = () => {
    const made = held(page);
    const most = made.reduce((so, { bytes }) => (bytes > so ? bytes : so), 1n);
    const chooser = format.querySelector("select");
    if (chooser) chooser.value = String(page.state.bytes);
    else format.append(select("Numbers as", FORMATS.map((one) => ({ name: String(one), title: NAMES[one] })), String(page.state.bytes), (name) => page.set({ bytes: FORMATS.find((one) => String(one) === name) ?? 2 }))); // prettier-ignore
    list.replaceChildren(
      ...made.map(({ name, about, formula, bytes }) =>
        h(
          "li",
          { "data-held": name },
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

/** One token more: with what was kept, and without. */
export function writing(page: Reading): { element: HTMLElement; draw(): void } {
  const body = h("div");
  const element = h("section.part.writing", h("h2", "Writing one token more"), body);
  const draw = () => {
    const model = chosen(page.cost, page.state);
    const { N, B } = model.sizes;
    if (!model.has.includes("causal")) {
      body.replaceChildren(h("p", "This model looks both ways: a new token changes what every earlier one sees, so nothing can be kept and each answer costs a whole pass.")); // prettier-ignore
      return;
    }
    const [step, pass] = [all(page.cost, "step", model), all(page.cost, "whole", model)];
    const grows = page.cost.work
      .filter(({ step, counted }) => counted !== false && step?.some(({ of }) => of.includes("N")))
      .reduce((sum, work) => sum + total(work, "step", model), 0n);
    const cache = page.cost.stores.find(({ name }) => name === "cache");
    const reads = (all(page.cost, "parameters", model) + amount(cache?.numbers ?? [], model)) * BigInt(page.state.bytes);
    const [one, every] = [together(page.cost, "step", model), together(page.cost, "whole", model)];
    const facts: [string, string, string[], string][] = [
      ["with the cache", `${whole(step)} multiply-adds`, [one.letters, one.operands], `of them ${whole(grows)} grow with the ${whole(N)} tokens that are asked`], // prettier-ignore
      ["without", `${whole(pass)} multiply-adds`, [every.letters, every.operands], `the whole pass again: ${brief(Math.round(Number(pass) / Number(step)))} times as much`], // prettier-ignore
      ["memory read", stored(reads), [], `every weight and the whole cache once: ${(Number(step) / Number(reads)).toPrecision(2)} multiply-adds a byte, against ${brief(Math.round(Number(pass) / Number(reads)))} in a pass`], // prettier-ignore
    ];
    body.replaceChildren(
      h("p", `With ${whole(N)} tokens in all${B > 1 ? ` in each of ${whole(B)} sequences` : ""}, the last one costs:`),
      h("dl.facts", facts.map(([name, value, lines, why]) => h("div", h("dt", name), h("dd", h("b", value), lines.map((line, i) => h("span.arithmetic", i ? `= ${line}` : line)), h("span.quiet", why))))), // prettier-ignore
    );
  };
  return { element, draw };
}

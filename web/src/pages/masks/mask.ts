// The attention mask: one rule or two combined, drawn as a grid with the attention weights under it.
import { h, select, slider } from "../../core/dom";
import { number } from "../../core/format";
import { at } from "../../core/tensor";
import { stepsBack, derivationLine } from "./derivation";
import { grid } from "./grid";
import { mayAttend, named, reason, type MaskedAttention, maskedAttention } from "./combined";
import type { MasksPage } from "./page";
import { withDefault, chosen, type MasksState, patternOf, ruleOf } from "./state";

export function maskPanel(page: MasksPage) {
  const reads: (keyof MasksState)[] = ["rules", "join", "head", "cell"];
  const { record } = page;
  let now: MaskedAttention;
  let computed = "";
  let pointed: [number, number] | undefined;
  const patterns = record.patterns.map((pattern) => {
    const press = () => page.set({ rules: chosen(record, pattern), join: pattern.join ?? "and" });
    return h("button", { type: "button", title: pattern.summary, "aria-pressed": "false", onclick: press, "data-name": pattern.name }, pattern.title); // prettier-ignore
  });
  const first = select("rule", record.rules, "", (name) => page.set({ rules: [withDefault(record, name), ...page.state.rules.slice(1)] })); // prettier-ignore
  const joins = [{ name: "", title: "alone" }, { name: "and", title: "and" }, { name: "or", title: "or" }]; // prettier-ignore
  const join = select("combine", joins, "", (how) => joined(how as "" | "and" | "or"));
  const second = select("with", record.rules, "", (name) => page.set({ rules: [page.state.rules[0], withDefault(record, name)] }));
  const heads = select("head", Array.from({ length: record.heads }, (_, i) => ({ name: String(i), title: `H${i}` })), "0", (name) => page.set({ head: Number(name) })); // prettier-ignore
  const knobs = [h("div.knob"), h("div.knob")];
  const summary = h("p.quiet.summary");
  const view = grid("attention mask: rows are queries, columns are keys", {
    point(cell) {
      pointed = cell;
      tell(false);
    },
    pick(cell) {
      pointed = undefined;
      page.set({ cell });
    },
  });
  const explanation = h("p.reason", { role: "status", "aria-live": "polite" });
  const looks = h("div.ladder", { role: "group", "aria-label": "how the mask decides" });
  const weighs = h("div.ladder", { role: "group", "aria-label": "how the weight is computed" });
  const element = h(
    "div.mask-panel",
    h("div.patterns", { role: "group", "aria-label": "preset masks" }, patterns),
    h("div.choices", h("div.rule", first, knobs[0]), h("div.rule", join, second, knobs[1]), h("div.rule", heads)),
    summary,
    h("div.beside", h("div", view.element, key()), h("div.explained", explanation, looks, weighs)),
  );

  function joined(how: "" | "and" | "or"): void {
    const [one, other] = page.state.rules;
    if (!how) page.set({ rules: [one], join: "and" });
    else page.set({ rules: [one, other ?? withDefault(record, one.name === "window" ? "causal" : "window")], join: how });
  }

  function draw(): void {
    const { rules, join: how, head } = page.state;
    const wanted = JSON.stringify([rules, how]);
    if (wanted !== computed) now = maskedAttention(record, page.state);
    computed = wanted;
    const pattern = patternOf(record, page.state);
    patterns.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.name === pattern?.name)));
    choose(first, rules[0].name);
    choose(join, rules.length > 1 ? how : "");
    choose(second, rules[1]?.name ?? "");
    second.hidden = rules.length < 2;
    choose(heads, String(head));
    knobs.forEach((place, i) => turn(place, i));
    summary.textContent = pattern?.summary ?? rules.map(({ name }) => ruleOf(record, name).summary).join(how === "or" ? " Or: " : " And: "); // prettier-ignore
    const { names, program, weights } = now;
    const values = program.get(weights);
    const empty = names.map((_, i) => !names.some((_, j) => mayAttend(now, now.visible, i, j)));
    view.draw({
      rows: names,
      columns: names,
      cell(i, j) {
        const able = mayAttend(now, now.visible, i, j);
        const weight = at(values, [head, i, j]);
        return { state: able ? "attended" : "masked", share: Math.sqrt(weight), text: able || empty[i] ? number(weight, 2) : "", spoken: able ? number(weight, 4) : "masked" }; // prettier-ignore
      },
      after: empty.includes(true) ? (i) => (empty[i] ? "all 0" : "") : undefined,
      chosen: cell(),
    });
    tell(true);
  }

  /** The cell that is pointed at, or chosen; by default the last query and its first unmasked key. */
  function cell(): [number, number] {
    const { names } = now;
    const found = pointed ?? page.state.cell;
    if (found && found.every((i) => i < names.length)) return found;
    const last = names.length - 1;
    return [last, Math.max(0, names.findIndex((_, j) => mayAttend(now, now.visible, last, j)))]; // prettier-ignore
  }

  function tell(all: boolean): void {
    const [i, j] = cell();
    const { programRecord, program, parts, visible, weights, names } = now;
    if (!all) view.mark([i, j]);
    const empty = !names.some((_, k) => mayAttend(now, visible, i, k));
    explanation.textContent = `${reason(now, page.state.join, i, j)}${empty ? ` The row of ${named(now, i)} is fully masked: all its weights are 0, and attention adds nothing to it.` : ""}`; // prettier-ignore
    const decides = parts.flatMap((part) =>
      part.steps.flatMap(({ id }) => derivationLine(programRecord, program, id, [i, j], id === part.visible) ?? []),
    );
    const joined = parts.length > 1 ? derivationLine(programRecord, program, visible, [i, j], true) : undefined;
    looks.replaceChildren(...decides, ...(joined ? [joined] : []));
    weighs.replaceChildren(
      ...stepsBack(programRecord, weights).flatMap(
        (id) => derivationLine(programRecord, program, id, [page.state.head, i, j]) ?? [],
      ),
    );
  }

  /** The slider of a rule's number; it stays where it is while it is dragged. */
  function turn(place: HTMLElement, i: number): void {
    const rule = page.state.rules[i];
    const knob = rule && ruleOf(record, rule.name).knob;
    const wanted = rule && knob ? `${rule.name} ${rule.n}` : "";
    if (place.dataset.shown === wanted) return;
    place.dataset.shown = wanted;
    if (!rule || !knob) return place.replaceChildren();
    const move = (n: number, step: boolean) => {
      place.dataset.shown = `${rule.name} ${n}`;
      page.set({ rules: page.state.rules.map((one, k) => (k === i ? { ...one, n } : one)) }, { step });
    };
    place.replaceChildren(slider(knob.label, [knob.low, knob.high], rule.n, move));
  }

  return { element, reads, draw, now: () => now };
}

export function choose(place: HTMLElement, value: string): void {
  place.querySelector("select")!.value = value;
}

const key = (): HTMLElement =>
  h(
    "p.key",
    h(
      "span",
      h("i.swatch", { "data-state": "attended", style: "--share:.8" }),
      "unmasked: the stronger the colour, the larger the weight",
    ),
    h("span", h("i.swatch", { "data-state": "masked" }), "masked: weight 0"),
  );

// Who may look at whom: a mask of one rule or two, drawn as a grid with the weights that attention has under it.
import { h, numbered, select, slider } from "../dom";
import { number } from "../format";
import { at } from "../tensor";
import { behind, rung } from "./derivation";
import { grid } from "./grid";
import { may, named, reason, type Under, under } from "./combined";
import type { Reading } from "./page";
import { begun, chosen, type MasksState, patternOf, ruleOf } from "./state";

export function who(page: Reading) {
  const reads: (keyof MasksState)[] = ["rules", "join", "head", "cell"];
  const { record } = page;
  let now: Under;
  let made = "";
  let pointed: [number, number] | undefined;
  const patterns = record.patterns.map((pattern) => {
    const press = () => page.set({ rules: chosen(record, pattern), join: pattern.join ?? "and" });
    return h("button", { type: "button", title: pattern.summary, "aria-pressed": "false", onclick: press, "data-name": pattern.name }, pattern.title); // prettier-ignore
  });
  const first = select("rule", record.rules, "", (name) => page.set({ rules: [begun(record, name), ...page.state.rules.slice(1)] })); // prettier-ignore
  const joins = [{ name: "", title: "alone" }, { name: "and", title: "and" }, { name: "or", title: "or" }]; // prettier-ignore
  const join = select("joined", joins, "", (how) => joined(how as "" | "and" | "or"));
  const second = select("with", record.rules, "", (name) => page.set({ rules: [page.state.rules[0], begun(record, name)] }));
  const heads = select("head", numbered(Array.from({ length: record.heads }, (_, i) => i + 1)), "1", (name) => page.set({ head: Number(name) - 1 })); // prettier-ignore
  const knobs = [h("div.knob"), h("div.knob")];
  const summary = h("p.quiet.summary");
  const view = grid("who may look at whom: rows ask, columns answer", {
    point(cell) {
      pointed = cell;
      tell(false);
    },
    pick(cell) {
      pointed = undefined;
      page.set({ cell });
    },
  });
  const said = h("p.reason", { role: "status", "aria-live": "polite" });
  const looks = h("div.ladder", { role: "group", "aria-label": "how the mask decides" });
  const weighs = h("div.ladder", { role: "group", "aria-label": "how the weight is computed" });
  const element = h(
    "div.who",
    h("div.patterns", { role: "group", "aria-label": "masks with a name" }, patterns),
    h("div.choices", h("div.rule", first, knobs[0]), h("div.rule", join, second, knobs[1]), h("div.rule", heads)),
    summary,
    h("div.beside", h("div", view.element, key()), h("div.explained", said, looks, weighs)),
  );

  function joined(how: "" | "and" | "or"): void {
    const [one, other] = page.state.rules;
    if (!how) page.set({ rules: [one], join: "and" });
    else page.set({ rules: [one, other ?? begun(record, one.name === "window" ? "causal" : "window")], join: how });
  }

  function draw(): void {
    const { rules, join: how, head } = page.state;
    const wanted = JSON.stringify([rules, how]);
    if (wanted !== made) now = under(record, page.state);
    made = wanted;
    const pattern = patternOf(record, page.state);
    patterns.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.name === pattern?.name)));
    choose(first, rules[0].name);
    choose(join, rules.length > 1 ? how : "");
    choose(second, rules[1]?.name ?? "");
    second.hidden = rules.length < 2;
    choose(heads, String(head + 1));
    knobs.forEach((place, i) => turn(place, i));
    summary.textContent = pattern?.summary ?? rules.map(({ name }) => ruleOf(record, name).summary).join(how === "or" ? " Or: " : " And: "); // prettier-ignore
    const { names, program, weights } = now;
    const values = program.get(weights);
    const blind = names.map((_, i) => !names.some((_, j) => may(now, now.visible, i, j)));
    view.draw({
      rows: names,
      columns: names,
      cell(i, j) {
        const able = may(now, now.visible, i, j);
        const weight = at(values, [head, i, j]);
        return { state: able ? "seen" : "hidden", share: Math.sqrt(weight), text: able || blind[i] ? number(weight, 2) : "", spoken: able ? number(weight, 4) : "hidden" }; // prettier-ignore
      },
      after: blind.includes(true) ? (i) => (blind[i] ? "all 0" : "") : undefined,
      chosen: cell(),
    });
    tell(true);
  }

  /** What is pointed at, or chosen; unless said, the last word and who it looks at first. */
  function cell(): [number, number] {
    const { names } = now;
    const found = pointed ?? page.state.cell;
    if (found && found.every((i) => i < names.length)) return found;
    const last = names.length - 1;
    return [last, Math.max(0, names.findIndex((_, j) => may(now, now.visible, last, j)))]; // prettier-ignore
  }

  function tell(all: boolean): void {
    const [i, j] = cell();
    const { programRecord, program, parts, visible, weights, names } = now;
    if (!all) view.mark([i, j]);
    const blind = !names.some((_, k) => may(now, visible, i, k));
    said.textContent = `${reason(now, page.state.join, i, j)}${blind ? ` ${named(now, i)} may look at nobody: all its weights are 0, and attention adds nothing to it.` : ""}`; // prettier-ignore
    const decides = parts.flatMap((part) =>
      part.steps.flatMap(({ id }) => rung(programRecord, program, id, [i, j], id === part.visible) ?? []),
    );
    const joined = parts.length > 1 ? rung(programRecord, program, visible, [i, j], true) : undefined;
    const counted = decides.length > 0 && h("p.quiet", "Places count from 0 here.");
    looks.replaceChildren(...decides, ...(joined ? [joined] : []), ...(counted ? [counted] : []));
    weighs.replaceChildren(
      ...behind(programRecord, weights).flatMap((id) => rung(programRecord, program, id, [page.state.head, i, j]) ?? []),
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
    const move = (n: number) => {
      place.dataset.shown = `${rule.name} ${n}`;
      page.set({ rules: page.state.rules.map((one, k) => (k === i ? { ...one, n } : one)) });
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
    h("span", h("i.swatch", { "data-state": "seen", style: "--share:.8" }), "seen: the stronger, the more weight"),
    h("span", h("i.swatch", { "data-state": "hidden" }), "hidden: weight 0"),
  );

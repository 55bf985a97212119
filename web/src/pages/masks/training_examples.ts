// The training examples of one sentence: each row of the causal mask is one example, and one pass learns from all of them.
import { h } from "../../core/dom";
import { number, scientific } from "../../core/format";
import { COLOURS, type Name } from "../../core/names";
import { grid } from "./grid";
import type { MasksPage } from "./page";
import type { MasksState } from "./state";

const WORDS = 6; // of a long example that are printed in the list

export function trainingExamples(page: MasksPage) {
  const reads: (keyof MasksState)[] = ["lesson"];
  const { record } = page;
  const { examples: lessons, words, bos: begin } = record;
  const count = lessons.length;
  const tokens: Name[] = [{ text: begin, colour: -1 }, ...words.slice(0, -1).map((text, i) => ({ text, colour: i % COLOURS }))];
  let pointed: number | undefined;
  const view = grid("the causal mask: each row is one training example", {
    point(cell) {
      pointed = cell?.[0];
      light();
    },
    pick: ([lesson]) => page.set({ lesson }),
  });
  const rows = lessons.map(({ prefix_length: given, next }, i) => {
    const before = [begin, ...words].slice(0, given);
    const shown = before.length > WORDS ? ["…", ...before.slice(-WORDS)] : before;
    return h(
      "button.lesson",
      { type: "button", "aria-pressed": "false", onclick: () => page.set({ lesson: i }), title: `${before.join(" ")} → ${next}` },
      h("span.given", h("bdi", shown.join(" "))),
      h("span.arrow", { "aria-label": "then" }, "→"),
      h("b", { "data-colour": i % COLOURS }, h("bdi", next)),
      h("span.loss", number(lessons[i].full_pass_loss, 3)),
    );
  });
  rows.forEach((row, i) => {
    row.addEventListener("pointerenter", () => ((pointed = i), light()));
    row.addEventListener("pointerleave", () => ((pointed = undefined), light()));
    row.addEventListener("keydown", (event) => {
      const to = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: count - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      rows[Math.max(0, Math.min(count - 1, to))].focus();
      page.set({ lesson: Math.max(0, Math.min(count - 1, to)) });
    });
  });
  const explanation = h("p.reason", { role: "status", "aria-live": "polite" });
  const apart = Math.max(...lessons.map(({ full_pass_loss: together, own_pass_loss: alone }) => Math.abs(together - alone)));
  const mean = lessons.reduce((sum, { full_pass_loss: together }) => sum + together, 0) / count;
  const listed = lessons.map(({ prefix_length: given }) => given);
  const sum = count > 6 ? `${listed.slice(0, 3).join(" + ")} + … + ${count}` : listed.join(" + ");
  const element = h(
    "div",
    h(
      "div.beside",
      h(
        "div",
        view.element,
        h("p.key.quiet", "A row attends to the tokens of its example. At its end is the target, the next word."),
      ),
      h(
        "div.explained",
        h("div.lesson.heading", { "aria-hidden": "true" }, h("span.given", "given"), h("span.arrow"), h("b", "next"), h("span.loss", "loss, nats")), // prettier-ignore
        h("div.lessons", { role: "group", "aria-label": "training examples" }, rows),
        explanation,
      ),
    ),
    h(
      "dl.figures",
      figure("examples", String(count), `of ${count} word${count === 1 ? "" : "s"}`),
      figure("read at once", `${count} token${count === 1 ? "" : "s"}`, "1 pass for all examples"),
      figure("read one by one", `${(count * (count + 1)) / 2} token${count === 1 ? "" : "s"}`, count > 1 ? `${sum}, ${count} passes` : "1 pass"), // prettier-ignore
      figure("mean loss", number(mean, 4), "of the untrained model"),
      figure("largest difference", scientific(apart), "|loss in one pass − loss in a pass of its own|, measured in float64"),
    ),
  );

  function light(): void {
    const shown = pointed ?? page.state.lesson;
    const { prefix_length: given, next, full_pass_loss: together, own_pass_loss: alone } = lessons[shown];
    view.draw({
      rows: tokens,
      columns: tokens,
      cell: (i, j) => ({ state: j <= i ? "attended" : "masked", share: i === shown ? 0.85 : 0.35, text: "", spoken: j <= i ? "attended" : "masked" }), // prettier-ignore
      after: (i) => `→ ${lessons[i].next}`,
      row: shown,
    });
    rows.forEach((row, i) => {
      row.setAttribute("aria-pressed", String(i === page.state.lesson));
      row.toggleAttribute("data-lit", i === shown);
    });
    const chance = Math.exp(-together);
    explanation.textContent = `From ${given} token${given === 1 ? "" : "s"} the model gives “${next}” a probability of ${number(chance, 4)}: loss = −ln ${number(chance, 4)} = ${number(together, 4)}. In a pass of its own: ${number(alone, 4)}.`; // prettier-ignore
  }

  return { element, reads, draw: light };
}

export const figure = (name: string, value: string, how: string): HTMLElement =>
  h("div", h("dt", name), h("dd", value), h("dd.quiet", how));

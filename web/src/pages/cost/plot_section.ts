// A section with a plot: the values of the chosen mark, the numbers as a table, and buttons to save the picture.
import { button, h } from "../../core/dom";
import { save } from "../../core/save";
import { table } from "../../core/tables";
import { type Picture, plot } from "./plot";

export interface PlotOptions {
  id: string; // of saved files
  title: string;
  hint: string;
  before?: HTMLElement; // above the plot
  choices?: HTMLElement;
  after?: HTMLElement;
  picture(): Picture;
  table(): { heads: string[]; rows: string[][] };
}

export function saving(of: () => HTMLElement, file: string, title: string): HTMLElement {
  const one = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save this picture as ${kind.toUpperCase()}`, () => save(of(), file, kind), {
      class: "keep",
      "aria-label": `Save “${title}” as ${kind.toUpperCase()}`,
    });
  return h("div.buttons", one("svg"), one("png"));
}

export function plotSection(showing: PlotOptions): { element: HTMLElement; draw(): void } {
  const reading = h("div.reading", { "aria-hidden": "true" });
  const drawing = plot(`${showing.title}: plot, mark by mark`, (mark) => {
    reading.replaceChildren(mark ? h("p.place", mark.sentence) : h("p.quiet", showing.hint));
  });
  const picture = h("figure", drawing.legend, drawing.element);
  const rows = h("div");
  const unfold = h<HTMLDetailsElement>("details", { ontoggle: () => fill() }, h("summary", "As a table", h("span.spoken", `: ${showing.title}`)), rows); // prettier-ignore
  const fill = () => {
    if (!unfold.open) return;
    const { heads, rows: lines } = showing.table();
    rows.replaceChildren(table(showing.title, heads, lines, { class: "numbers" }));
  };
  const head = h(
    "div.head",
    h("h2", showing.title),
    saving(() => picture, `equiscope-cost-${showing.id}`, showing.title),
  );
  const element = h(
    `section.part.${showing.id}`,
    { "data-part": showing.id },
    head,
    showing.before,
    showing.choices,
    picture,
    reading,
    showing.after,
    unfold,
  );
  const draw = () => {
    drawing.draw(showing.picture());
    fill();
  };
  return { element, draw };
}

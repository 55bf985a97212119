// A section with a chart: its caption, its legend, the values of the chosen mark, its numbers as a table, buttons that save the picture.
import { button, h } from "../core/dom";
import { save } from "../core/save";
import { table } from "../core/tables";
import { ink, swatch } from "./markers";
import { type Chosen, plot } from "./plot";
import type { Picture } from "./series";

export interface SectionOptions {
  id: string; // its class, and its name as a part of a figure
  file: string; // the stem of saved files
  title: string;
  hint: string; // while nothing is chosen
  picture(): Picture;
  caption?(): string; // above the chart, and on the saved picture
  before?: HTMLElement;
  choices?(): (HTMLElement | false)[];
  legend?(picture: Picture): HTMLElement[]; // below the chart; by default a key above it
  read?(chosen: Chosen, picture: Picture): (Node | false)[]; // by default the sentence of the mark
  notes?(): string[];
  after?: HTMLElement;
  table?(): { heads: string[]; rows: string[][] };
}

export interface Section {
  element: HTMLElement;
  draw(): void;
}

export function section(given: SectionOptions): Section {
  const { title } = given;
  const reading = h("div.reading", { "aria-hidden": "true" });
  const sentence = ({ series, mark }: Chosen, { series: all }: Picture) => [h("p.place", all[series].marks[mark].sentence)];
  let picture: Picture;
  const chart = plot(`${title}: plot, mark by mark`, (chosen) => {
    const found = chosen ? (given.read ?? sentence)(chosen, picture) : [h("p.quiet", given.hint)];
    reading.replaceChildren(...found.filter((part) => part !== false));
  });
  const [caption, key, legend, choices, notes] = [h("figcaption"), h("div.legend"), h("div.legend"), h("div.choices", { role: "group", "aria-label": "options" }), h("div.quiet.remarks")]; // prettier-ignore
  const figure = h("figure", given.caption && caption, !given.legend && key, chart.element);
  const [unfold, fill] = unfolding(given);
  const element = h(
    `section.part.${given.id}`,
    { "data-part": given.id },
    h("div.head", h("h2", title), saving(() => figure, given.file, title)), // prettier-ignore
    given.before,
    choices,
    figure,
    given.legend && legend,
    reading,
    notes,
    given.after,
    given.table && unfold,
  );
  const draw = () => {
    picture = given.picture();
    caption.textContent = given.caption?.() ?? "";
    const sentences = given.notes?.() ?? [];
    notes.hidden = !sentences.length;
    notes.replaceChildren(...sentences.map((text) => h("p", text)));
    const found = (given.choices?.() ?? []).filter((one) => one !== false);
    choices.hidden = !found.length;
    refill(choices, found);
    if (given.legend) refill(legend, given.legend(picture));
    else key.replaceChildren(...picture.series.map((one) => h("span.entry", ink(one), swatch(one), one.name)));
    chart.draw(picture);
    fill();
  };
  return { element, draw };
}

/** The numbers of a chart, which are written when they are opened. */
function unfolding({ title, table: numbers }: SectionOptions): [HTMLElement, () => void] {
  const rows = h("div");
  const fill = () => {
    if (!unfold.open || !numbers) return;
    const { heads, rows: lines } = numbers();
    rows.replaceChildren(table(title, heads, lines, { class: "numbers" }));
  };
  const unfold = h<HTMLDetailsElement>("details", { ontoggle: fill }, h("summary", "As a table", h("span.spoken", `: ${title}`)), rows); // prettier-ignore
  return [unfold, fill];
}

/** Buttons that save a picture. */
export function saving(of: () => HTMLElement, file: string, title: string): HTMLElement {
  const one = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save this picture as ${kind.toUpperCase()}`, () => save(of(), file, kind), {
      class: "keep",
      "aria-label": `Save “${title}” as ${kind.toUpperCase()}`,
    });
  return h("div.buttons", one("svg"), one("png"));
}

/** Replace the children of an element and keep the focus. */
export function refill(place: HTMLElement, children: HTMLElement[]): void {
  if (children.length === place.children.length && children.every((one, i) => one === place.children[i])) return;
  const key = (element: Element | null) => (element as HTMLElement | null)?.dataset.key ?? element?.getAttribute("aria-label");
  const before = place.contains(document.activeElement) ? key(document.activeElement) : undefined;
  place.replaceChildren(...children);
  if (before) [...place.querySelectorAll<HTMLElement>("button, select")].find((one) => key(one) === before)?.focus({ preventScroll: true }); // prettier-ignore
}

// A section with a plot: its caption, its legend, the values of the chosen mark, and its numbers as a table.
import { button, h } from "../../core/dom";
import { save } from "../../core/save";
import { table } from "../../core/tables";
import { colour, swatch } from "../../charts/markers";
import type { ComparePage } from "./page";
import { type Chosen, type Picture, plot } from "../../charts/plot";

export interface PlotOptions {
  id: string; // of saved files
  title: string;
  about(): string; // the caption, below the title and on the saved picture
  picture(): Picture;
  read(chosen: Chosen, picture: Picture): (Node | false)[];
  choices?(): (HTMLElement | false)[];
  table?(): { heads: string[]; rows: string[][] };
  notes?(): string[] | false;
}

export interface PlotSection {
  element: HTMLElement;
  draw(): void;
}

const HINT = "Point at a mark or use the arrow keys: left and right along a candidate, up and down between candidates.";

export function plotSection(page: ComparePage, showing: PlotOptions): PlotSection {
  const about = h("figcaption");
  const reading = h("div.reading", { "aria-hidden": "true" });
  const drawing = plot(`${showing.title}: plot, mark by mark`, (chosen) => {
    reading.replaceChildren(...(chosen ? showing.read(chosen, picture).filter((part) => part !== false) : [h("p.quiet", HINT)]));
  });
  const figure = h("figure", about, drawing.element);
  const [legend, choices, notes] = [h("div.legend"), h("div.choices"), h("div.quiet.remarks")];
  const rows = h("div");
  const unfold = h<HTMLDetailsElement>(
    "details",
    { ontoggle: () => fill() },
    h("summary", "As a table", h("span.spoken", `: ${showing.title}`)),
    rows,
  );
  const fill = () => {
    if (!unfold.open || !showing.table) return;
    const { heads, rows: lines } = showing.table();
    rows.replaceChildren(table(showing.title, heads, lines, { class: "numbers" }));
  };
  const saving = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save this plot as ${kind.toUpperCase()}`, () => save(figure, `${page.file}-${showing.id}`, kind), {
      class: "keep",
      "aria-label": `Save the plot “${showing.title}” as ${kind.toUpperCase()}`,
    });
  const element = h(
    `section.part.${showing.id}`,
    { "data-part": showing.id },
    h("div.head", h("h2", showing.title), h("div.buttons", saving("svg"), saving("png"))),
    choices,
    figure,
    legend,
    reading,
    notes,
    showing.table && unfold,
  );
  let picture: Picture;
  const draw = () => {
    picture = showing.picture();
    about.textContent = showing.about();
    const sentences = (showing.notes?.() || []).map((text) => h("p", text));
    notes.hidden = !sentences.length;
    notes.replaceChildren(...sentences);
    const found = showing.choices?.() ?? [];
    choices.hidden = !found.length;
    refill(choices, found);
    refill(legend, toggles(page));
    drawing.draw(picture);
    fill();
  };
  return { element, draw };
}

/** A legend of buttons that show and hide candidates; empty where there is only one. */
function toggles(page: ComparePage): HTMLElement[] {
  const { without } = page.state;
  if (page.groups.length < 2) return [];
  const every = without.length > 0 && button("Show all", "Draw every candidate", () => page.set({ without: [] }), { class: "all" });
  return [
    ...page.groups.map(({ index, candidate, label }) => {
      const drawn = !without.includes(index);
      const press = () => page.set({ without: drawn ? [...without, index] : without.filter((one) => one !== index) });
      const one = button("", drawn ? `Hide ${candidate.name}` : `Draw ${candidate.name}`, press, { "aria-pressed": String(drawn), "data-look": colour(index), "data-key": `show-${index}` }); // prettier-ignore
      one.append(swatch(index), h("span", label));
      if (drawn && without.length === page.groups.length - 1) one.disabled = true;
      return one;
    }),
    ...(every ? [every] : []),
  ];
}

/** Replace the children of an element and keep the focus. */
export function refill(place: HTMLElement, children: (HTMLElement | false)[]): void {
  const key = (element: Element | null) => (element as HTMLElement | null)?.dataset.key ?? element?.getAttribute("aria-label");
  const before = place.contains(document.activeElement) ? key(document.activeElement) : undefined;
  place.replaceChildren(...children.filter((child) => child !== false));
  if (before) [...place.querySelectorAll<HTMLElement>("button, select")].find((one) => key(one) === before)?.focus({ preventScroll: true }); // prettier-ignore
}

/** The values of all drawn candidates at one x, best first; the chosen candidate is highlighted. */
export function ranking(
  title: string,
  rows: { look: number; name: string; text: string; sort: number; lit: boolean }[],
  more = false,
): HTMLElement[] {
  // prettier-ignore
  const order = [...rows].sort((a, b) => (more ? b.sort - a.sort : a.sort - b.sort));
  const line = ({ look, name, text, lit }: (typeof rows)[number]) =>
    h("li", { "data-look": colour(look), "data-lit": String(lit) }, swatch(look), h("span.who", name), h("b", text));
  return [h("p.place", title), h("ol", order.map(line))]; // prettier-ignore
}

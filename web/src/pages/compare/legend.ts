// What stands below a plot of candidates: buttons that show and hide them, and their values at one x.
import { button, h } from "../../core/dom";
import { colour, keyOf } from "../../charts/markers";
import type { ComparePage } from "./page";

export const HINT = "Point at a mark or use the arrow keys: left and right along a candidate, up and down between candidates.";

/** A legend of buttons that show and hide candidates; empty where there is only one. */
export function toggles(page: ComparePage): HTMLElement[] {
  const { without } = page.state;
  if (page.groups.length < 2) return [];
  const every = without.length > 0 && button("Show all", "Draw every candidate", () => page.set({ without: [] }), { class: "all" });
  return [
    ...page.groups.map(({ index, candidate, label }) => {
      const drawn = !without.includes(index);
      const press = () => page.set({ without: drawn ? [...without, index] : without.filter((one) => one !== index) });
      const one = button("", drawn ? `Hide ${candidate.name}` : `Draw ${candidate.name}`, press, { "aria-pressed": String(drawn), "data-look": colour(index), "data-key": `show-${index}` }); // prettier-ignore
      one.append(keyOf(index), h("span", label));
      if (drawn && without.length === page.groups.length - 1) one.disabled = true;
      return one;
    }),
    ...(every ? [every] : []),
  ];
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
    h("li", { "data-look": colour(look), "data-lit": String(lit) }, keyOf(look), h("span.who", name), h("b", text));
  return [h("p.place", title), h("ol", order.map(line))]; // prettier-ignore
}

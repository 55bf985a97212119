// Numbers in a table, explained on hover, selected with the arrow keys, highlighted as operands of others.
import type { Desk, Run } from "../../core/desk";
import type { Place } from "../../core/program";

/** A cell of the table and the values that it shows: the first is its own, the others are the same number elsewhere. */
export interface Shown {
  cell: HTMLElement;
  places: Place[];
}

/** listed: all cells, row by row; rows may be hidden. */
export function speaking(desk: Desk & { run: Run }, grid: HTMLElement, ids: string[], listed: () => Shown[][]): void {
  const find = (event: Event): Shown | undefined => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>(".cell");
    return cell ? listed().flat().find((one) => one.cell === cell) : undefined; // prettier-ignore
  };
  const target = (shown: Shown) => ({ run: desk.run, ...shown.places[0] });
  grid.addEventListener("pointerover", (event) => {
    const shown = find(event);
    if (shown && event.pointerType !== "touch") desk.point(target(shown));
  });
  grid.addEventListener("pointerleave", () => desk.point(undefined));
  grid.addEventListener("click", (event) => find(event)?.cell.focus());
  grid.addEventListener("focusin", (event) => {
    const shown = find(event);
    if (!shown) return;
    for (const { cell } of listed().flat()) cell.tabIndex = cell === shown.cell ? 0 : -1;
    desk.pin(target(shown));
  });
  grid.addEventListener("keydown", (event) => {
    const shown = find(event);
    if (!shown || event.ctrlKey || event.metaKey) return;
    const rows = listed().filter(([first]) => !first.cell.closest("[hidden]"));
    const mine = ({ cell }: Shown) => cell === shown.cell;
    const r = rows.findIndex((row) => row.some(mine));
    const c = rows[r].findIndex(mine);
    const below = (to: number) => rows[to] && [to, Math.max(0, rows[to].length - (rows[r].length - c))]; // aligned at the last column
    const [row, column] = { ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], ArrowUp: below(r - 1), ArrowDown: below(r + 1), Home: [r, 0], End: [r, rows[r].length - 1] }[event.key] ?? []; // prettier-ignore
    if (event.key === "Escape") desk.pin(undefined);
    else if (row === undefined) return;
    else rows[row]?.[column]?.cell.focus();
    event.preventDefault();
  });
  for (const id of ids) {
    desk.marks.add({
      get run() {
        return desk.run;
      },
      id,
      light(places, style) {
        const wanted = new Set(places.map(({ index }) => index.join()));
        for (const { cell, places } of listed().flat()) {
          const here = places.find((place) => place.id === id);
          if (here) mark(cell, id, style, wanted.has(here.index.join()));
        }
      },
    });
  }
}

/** A cell may show several values; it stays highlighted as long as one of them is. */
function mark(cell: HTMLElement, id: string, style: string, on: boolean): void {
  const lit = new Set((cell.dataset[style] ?? "").split("|").filter(Boolean));
  lit[on ? "add" : "delete"](id);
  cell.dataset[style] = [...lit].join("|");
  cell.classList.toggle(style, lit.size > 0);
}

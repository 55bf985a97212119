// Numbers of single patches: cells of the program's values, explained where somebody points, in lines of a table.
import type { Place } from "../../core/program";
import { h } from "../../core/dom";
import { column } from "../../core/format";
import type { ImageDesk } from "./desk";

/** A cell that shows a number of a value: which role, of which patch, which column. */
export interface Asked {
  role: string;
  patch: number;
  column: number;
}

/** Cells by line. `asked` says what each of them shows now; a line may be shorter than another. */
export function speaking(desk: ImageDesk, grid: HTMLElement, cells: HTMLElement[][], asked: (r: number, c: number) => Asked) {
  const flat = () => cells.flat();
  const find = (event: Event): [number, number] | undefined => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>(".cell");
    const r = cells.findIndex((line) => cell && line.includes(cell));
    return cell && r >= 0 ? [r, cells[r].indexOf(cell)] : undefined;
  };
  const target = ([r, c]: [number, number]) => {
    const { role, patch, column } = asked(r, c);
    const id = desk.id(role);
    return { run: desk.run, id, index: desk.index(id, patch, column) };
  };
  flat().forEach((cell, i) => {
    cell.setAttribute("role", "gridcell");
    cell.tabIndex = i ? -1 : 0;
  });
  grid.addEventListener("pointerover", (event) => {
    const at = find(event);
    if (at && event.pointerType !== "touch") desk.point(target(at));
  });
  grid.addEventListener("pointerleave", () => desk.point(undefined));
  grid.addEventListener("click", (event) => (event.target as HTMLElement).closest<HTMLElement>(".cell")?.focus());
  grid.addEventListener("focusin", (event) => {
    const at = find(event);
    if (!at) return;
    for (const cell of flat()) cell.tabIndex = cell === cells[at[0]][at[1]] ? 0 : -1;
    desk.pin(target(at));
  });
  grid.addEventListener("keydown", (event) => {
    const at = find(event);
    if (!at || event.ctrlKey || event.metaKey) return;
    const [r, c] = at;
    const clipped = (line: number) => cells[line]?.[Math.min(c, (cells[line]?.length ?? 1) - 1)];
    const to = { ArrowLeft: cells[r][c - 1], ArrowRight: cells[r][c + 1], ArrowUp: clipped(r - 1), ArrowDown: clipped(r + 1), Home: cells[r][0], End: cells[r].at(-1) }[event.key]; // prettier-ignore
    if (event.key === "Escape") desk.pin(undefined);
    else if (!to) return;
    else to.focus();
    event.preventDefault();
  });
  desk.onPoint((pointed) => {
    const operands = pointed ? lit(desk, pointed) : new Set<string>();
    const own = pointed && key(pointed);
    cells.forEach((line, r) =>
      line.forEach((cell, c) => {
        const { id, index } = target([r, c]);
        const mine = key({ id, index });
        cell.classList.toggle("operand", operands.has(mine));
        cell.classList.toggle("target", mine === own);
      }),
    );
  });

  /** Write the numbers again: each in the style of its value. */
  return function draw(): void {
    const styles = new Map<string, (value: number) => string>();
    cells.forEach((line, r) =>
      line.forEach((cell, c) => {
        const { role, patch, column: at } = asked(r, c);
        const { data, shape } = desk.value(role);
        if (!styles.has(role)) styles.set(role, column(data, desk.state.digits));
        const text = styles.get(role)!(data[patch * shape.at(-1)! + at]);
        if (cell.textContent !== text) cell.textContent = text;
      }),
    );
  };
}

const key = ({ id, index }: Place): string => `${id}/${index.join()}`;

function lit(desk: ImageDesk, { id, index }: Place): Set<string> {
  const found = desk.run.program.operands(id, index);
  return new Set(found ? [...found.terms.filter((term): term is Place => "id" in term), ...found.more].map(key) : []);
}

/** A colour as 0..1 of red, green and blue. */
export const swatch = (numbers: ArrayLike<number>): HTMLElement => {
  const mark = h("i.swatch", { "aria-hidden": "true" });
  paint(mark, numbers);
  return mark;
};

export function paint(mark: HTMLElement, numbers: ArrayLike<number>): void {
  const byte = (share: number) => Math.round(255 * Math.min(Math.max(share, 0), 1));
  mark.style.background = `rgb(${byte(numbers[0])} ${byte(numbers[1])} ${byte(numbers[2])})`;
}

// One tab stop for many buttons: arrow keys move between them.

/** columns: of buttons that stand in a grid. */
export function arrows(element: HTMLElement, columns: number): void {
  element.addEventListener("keydown", (event) => {
    const all = [...element.querySelectorAll<HTMLElement>("button:not(:disabled)")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const by: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at, End: all.length - 1 - at }; // prettier-ignore
    const to = at < 0 ? undefined : all[at + by[event.key]];
    if (!to) return;
    for (const one of all) one.tabIndex = one === to ? 0 : -1;
    to.focus();
    event.preventDefault();
  });
}

// The words as chips: drag them, or move the focused one with the arrow keys.
import { button, h } from "../core/dom";
import { COLOURS } from "../core/names";
import type { Shown } from "../core/state";
import type { Desk } from "../core/desk";

export function strip(app: Desk<Shown & { words: string[] }>): HTMLElement {
  const list = h("div.words", {
    role: "listbox",
    "aria-label": "the words in their order; arrow keys move the focused word",
    "aria-orientation": "horizontal",
  });
  let dragged: number | undefined;
  const chipAt = (event: PointerEvent) => {
    const found = document
      .elementsFromPoint(event.clientX, event.clientY)
      .find((e) => e.classList.contains("chip") && list.contains(e));
    return (found as HTMLElement | undefined)?.dataset;
  };
  list.addEventListener("pointerdown", (event) => {
    const under = chipAt(event);
    if (!under) return;
    dragged = Number(under.word);
    list.setPointerCapture(event.pointerId); // the list's, since chips are made again when the order changes
  });
  list.addEventListener("pointermove", (event) => {
    const over = dragged === undefined ? undefined : chipAt(event);
    if (over && Number(over.word) !== dragged) move(app.state.order.indexOf(dragged!), Number(over.at));
  });
  for (const end of ["pointerup", "pointercancel"]) {
    list.addEventListener(end, () => {
      dragged = undefined;
      for (const chip of list.children) chip.classList.remove("dragged");
    });
  }
  app.keep(() => {
    const focused = (document.activeElement as HTMLElement)?.dataset?.word;
    const had = list.contains(document.activeElement);
    list.replaceChildren(...app.state.order.map((row, at) => chip(row, at)));
    if (had) list.querySelector<HTMLElement>(`[data-word="${focused}"]`)?.focus();
  });
  return h(
    "div.shuffler",
    { "data-part": "strip" },
    list,
    h(
      "div.buttons",
      button("Shuffle", "Put the words in a random order", () => order(shuffled(app.state.order))),
      button("Reverse", "Put the words in the opposite order", () => order([...app.state.order].reverse())),
      button("In order", "Restore the original order", () => order(app.state.order.map((_, i) => i))),
    ),
  );

  function order(next: number[]): void {
    app.set({ order: next });
  }

  function move(from: number, to: number): void {
    if (to < 0 || to >= app.state.order.length || to === from) return;
    const next = [...app.state.order];
    next.splice(to, 0, ...next.splice(from, 1));
    order(next);
  }

  function chip(row: number, at: number): HTMLElement {
    const element = h(
      "span.chip",
      {
        role: "option",
        tabindex: 0,
        "aria-selected": "false",
        "data-word": row,
        "data-at": at,
        "data-colour": row % COLOURS,
        title: "drag to move",
      },
      app.state.words[row],
    );
    element.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      move(at, to);
      app.draw();
      list.querySelector<HTMLElement>(`[data-word="${row}"]`)?.focus();
    });
    element.classList.toggle("dragged", row === dragged);
    return element;
  }
}

/** Another order than the given one, wherever there is one. */
export function shuffled(order: number[]): number[] {
  const next = [...order];
  for (let tries = 0; tries < 20; tries++) {
    for (let i = next.length - 1; i > 0; i--) {
      const j = crypto.getRandomValues(new Uint32Array(1))[0] % (i + 1);
      [next[i], next[j]] = [next[j], next[i]];
    }
    if (next.length < 2 || next.some((row, i) => row !== order[i])) break;
  }
  return next;
}

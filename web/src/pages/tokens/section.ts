// A section of the tokens page, for one input, and how it changes the selection.
import { button, h } from "../../core/dom";
import { save } from "../../core/save";
import type { Chosen } from "./state";

export interface Section {
  element: HTMLElement;
  draw(): void;
  leave?(): void; // called when another section opens
}

export interface Tell {
  now(): Chosen;
  set(change: Partial<Chosen>, passing?: boolean): void; // passing: not written into the link
}

/** A heading with buttons that save its section as a picture. */
export function heading(name: string, file: string): HTMLElement {
  const press = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save the ${file} as ${kind.toUpperCase()}`, () => save(head.parentElement!, `equiscope-${file}`, kind), { class: "keep", "aria-label": `Save the ${file} as ${kind.toUpperCase()}` }); // prettier-ignore
  const head = h("div.head", h("h2", name), h("div.buttons", press("svg"), press("png")));
  return head;
}

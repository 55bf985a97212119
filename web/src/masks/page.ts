// The page of masks: header, parts, footer.
import type { Masks } from "../contract";
import { h } from "../dom";

export function reveal(record: Masks, root: HTMLElement): void {
  root.replaceChildren(h("header", h("h1", record.title), h("p.lede", record.summary)));
}

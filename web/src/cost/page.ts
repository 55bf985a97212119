// The page of cost: header, parts, footer.
import type { Cost } from "../contract";
import { h } from "../dom";

export function reveal(record: Cost, root: HTMLElement): void {
  root.replaceChildren(h("header", h("h1", record.title), h("p.lede", record.summary)));
}

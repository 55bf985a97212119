// The page of graph: header, parts, footer.
import type { Messages } from "../contract";
import { h } from "../dom";

export function reveal(record: Messages, root: HTMLElement): void {
  root.replaceChildren(h("header", h("h1", record.title), h("p.lede", record.summary)));
}

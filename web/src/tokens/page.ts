// The page of tokens: header, parts, footer.
import type { Tokenised } from "../contract";
import { h } from "../dom";

export function reveal(record: Tokenised, root: HTMLElement): void {
  root.replaceChildren(h("header", h("h1", record.title), h("p.lede", record.summary)));
}

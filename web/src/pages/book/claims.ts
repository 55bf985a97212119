// A sentence of the claims ledger, opened below the paragraph that names it: its verdict, what was measured, and the command.
import { h } from "../../core/dom";

/** An entry of the ledger, as the build of the book takes it from docs/reference/claims.md. */
interface LedgerEntry {
  statement: string;
  verdict: string;
  figure: string;
  limits: string;
  command: string;
  source: string;
}

const SIGNS: Record<string, [sign: string, kind: string]> = {
  true: ["✓", "holds"],
  "true within limits": ["≈", "approximate"],
  false: ["✗", "broken"],
};

/** Make the buttons of all claims work. */
export function claims(text: HTMLElement): void {
  const ledger = JSON.parse(document.getElementById("ledger")?.textContent || "{}") as Record<string, LedgerEntry>;
  const opened = new Map<HTMLElement, HTMLElement>();
  let count = 0;
  text.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("button.claim") : null;
    const entry = button && ledger[button.dataset.claim ?? ""];
    if (!button || !entry) return;
    const open = opened.get(button);
    opened.delete(button);
    open?.remove();
    button.setAttribute("aria-expanded", String(!open));
    if (open) return;
    const id = `claim-${++count}`;
    const aside = card(entry, id);
    button.setAttribute("aria-controls", id);
    (button.closest("p, dl, table, blockquote, li") ?? button).after(aside);
    opened.set(button, aside);
  });
}

function card(entry: LedgerEntry, id: string): HTMLElement {
  const [sign, kind] = SIGNS[entry.verdict] ?? ["", "undecided"];
  return h(
    "aside.ledger",
    { id, "aria-label": `claim, measured: ${entry.verdict}` },
    h("p", h("q", entry.statement)),
    h("p", h(`strong.${kind}`, `${sign} ${entry.verdict}`), " ", entry.figure),
    entry.limits && h("p", entry.limits),
    h("p.quiet", h("code", entry.command), " measures it again. ", entry.source),
  );
}

// A sentence of the claims ledger, opened below the paragraph that names it: its verdict, what was measured, and the command.
import { h } from "../../core/dom";
import { shape, type Tone, type Verdict } from "../../widgets/verdict";

/** An entry of the ledger, as the build of the book takes it from docs/reference/claims.md. */
interface LedgerEntry {
  statement: string;
  verdict: string;
  figure: string;
  limits: string;
  command: string;
  source: string;
}

/** Signs and colours of a claim's verdicts: those of the verdicts on other pages. */
const LOOKS: Record<string, [Verdict, Tone]> = {
  true: ["holds", "holds"],
  "true within limits": ["approximate", "approximate"],
  false: ["broken", "fails"],
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
  const [verdict, tone] = LOOKS[entry.verdict] ?? ["undecided", "undecided"];
  return h(
    "aside.ledger",
    { id, "aria-label": `claim, measured: ${entry.verdict}` },
    h("p", h("q", entry.statement)),
    h("p", h("span.judged", { "data-tone": tone }, shape(verdict), h("span", entry.verdict)), " ", entry.figure),
    entry.limits && h("p", entry.limits),
    h("p.quiet", h("code", entry.command), " measures it again. ", entry.source),
  );
}

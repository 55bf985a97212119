// A measurement in words: the error, the rounding floor beside it, and what follows.
import { h } from "../core/dom";
import { capital, error, scientific } from "../core/format";
import type { Claim } from "../core/contract";
import type { Measurement } from "../core/measure";

const WORDS = {
  holds: "holds: equal up to rounding",
  approximate: "approximate: a small violation",
  broken: "broken",
  undecided: "undecided: not finite",
};

export function verdict(formula: string, found: Measurement): HTMLElement {
  return h(
    "div.verdict",
    { "data-verdict": found.verdict, "data-error": found.error, "data-floor": found.floor },
    h("span.badge", WORDS[found.verdict]),
    h("span", h("i", formula), " = ", h("b", error(found.error))),
    h("span.quiet", `rounding floor ${scientific(found.floor)}`),
  );
}

/** The claim that follows from the parts. */
export function claim(found: Claim | undefined): HTMLElement {
  if (!found) return h("span");
  const part = (found.decided_by ?? "").replace(/^.*\./, "");
  return h(
    "p.claim",
    h("b", found.holds ? "Claimed." : "Not claimed."),
    " ",
    found.holds ? capital(found.reason) : `${part ? `Decided by the ${part.replaceAll("_", " ")}: ` : ""}${found.reason}`,
    ".",
  );
}

// A verdict: a colour, a word and a sign, the same on every page. Filled: it holds or fails. Hollow: it need not hold, or is undecided.
import type { Claim, Row } from "../core/contract";
import { h, svg } from "../core/dom";
import { capital, error, scientific } from "../core/format";
import type { Measurement } from "../core/measure";

export type Verdict = Row["verdict"];
/** fails: it must hold and does not; not: it need not hold, and does not. */
export type Tone = "holds" | "approximate" | "fails" | "not" | "undecided";

export const WORDS: Record<Verdict, string> = {
  holds: "equal up to rounding",
  approximate: "a small violation",
  broken: "a violation that rounding does not explain",
  "not applicable": "the statement does not apply to this model; the row gives the reason",
  undecided: "could not be decided; the row gives the reason",
};

const SHAPES: Record<Verdict, string[]> = {
  holds: ["M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M4.8 8.2l2.2 2.3 4.2-4.6"],
  approximate: ["M8 1.2L15.2 14.4H.8z", "M5.6 11.4c.8-1.5 1.6-1.5 2.4-.7s1.6.8 2.4-.7"],
  broken: ["M4.9 1h6.2L15 4.9v6.2L11.1 15H4.9L1 11.1V4.9z", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"],
  "not applicable": ["M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M5 8h6"],
  undecided: ["M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M6 6.2c0-1.3 1-2 2-2s2 .7 2 1.8c0 1.5-2 1.6-2 3M8 11.4v.5"],
};

const TONES: Record<Verdict, Tone> = {
  holds: "holds",
  approximate: "approximate",
  broken: "fails",
  "not applicable": "undecided",
  undecided: "undecided",
};

/** The sign alone, where the word stands beside it. */
export function shape(verdict: Verdict): SVGElement {
  const [outline, sign] = SHAPES[verdict];
  return svg(
    "svg.shape",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svg("path.outline", { d: outline }),
    svg("path.sign", { d: sign }),
  );
}

/** A verdict as sign and word. tone: where it is not that of the verdict alone. */
export const judged = (verdict: Verdict, tone: Tone = TONES[verdict]): HTMLElement =>
  h("span.judged", { "data-verdict": verdict, "data-tone": tone, title: WORDS[verdict] }, shape(verdict), h("span", verdict));

/** Whether something holds: the two verdicts that a difference beside its rounding floor can have. */
export const whether = (holds: boolean): HTMLElement => judged(holds ? "holds" : "broken");

/** A measurement in words: its verdict, the error, and the rounding floor beside it. */
export function verdict(formula: string, found: Measurement): HTMLElement {
  return h(
    "div.verdict",
    { "data-verdict": found.verdict, "data-error": found.error, "data-floor": found.floor },
    judged(found.verdict),
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

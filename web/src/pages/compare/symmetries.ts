// The symmetries that each candidate claims, and what was measured after training, side by side.
import type { Candidate, Row } from "../../core/contract";
import { h } from "../../core/dom";
import { judged, shape, type Tone, WORDS } from "../../widgets/verdict";
import { labelled } from "./candidates";
import type { ComparePage } from "./page";

export function symmetries(page: ComparePage): HTMLElement | undefined {
  const all = page.comparison.candidates;
  const names = [...new Set(all.flatMap(({ claims, verdicts }) => [...(claims ?? []).map(({ action }) => action), ...Object.keys(verdicts ?? {})]))]; // prettier-ignore
  if (!names.length) return undefined;
  const used = [...new Set(all.flatMap(({ verdicts }) => Object.values(verdicts ?? {})))].filter(isVerdict);
  return h(
    "section.part.symmetries",
    { "data-part": "symmetries" },
    h("h2", "Symmetries, claimed and measured"),
    h("p.quiet.about", "Claims follow from the parts of a model; the trained model itself is measured."),
    h(
      "div.scroll",
      { tabindex: 0, role: "region", "aria-label": "Symmetries, claimed and measured" },
      h(
        "table.respected",
        h("caption.spoken", "Symmetries of each candidate"),
        h("thead", h("tr", h("th", { scope: "col" }, "candidate"), names.map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
        h("tbody", page.groups.map((group) => h("tr", h("th", { scope: "row" }, labelled(group)), names.map((name) => cell(group.candidate, name))))), // prettier-ignore
      ),
    ),
    used.length > 0 && h("ul.words", used.map((verdict) => h("li", shape(verdict), h("span", h("b", verdict), `: ${WORDS[verdict]}`)))), // prettier-ignore
    reasons(all),
  );
}

const isVerdict = (text: string): text is Row["verdict"] => text in WORDS;

/** Whether the measurement agrees with the claim. */
export function tone(claimed: boolean | undefined, measured: string | undefined): Tone {
  if (!measured || measured === "undecided" || measured === "not applicable" || !isVerdict(measured)) return "undecided";
  if (measured === "holds") return "holds";
  return claimed ? "fails" : "not";
}

function cell({ claims, verdicts }: Candidate, name: string): HTMLElement {
  const claim = (claims ?? []).find(({ action }) => action === name);
  const found = verdicts?.[name];
  const label = claim ? (claim.holds ? "claimed" : "not claimed") : "no claim";
  return h(
    "td",
    { "data-tone": tone(claim?.holds, found) },
    found && isVerdict(found) ? judged(found, tone(claim?.holds, found)) : h("span.judged", found ?? "not measured"),
    h("span.claimed", label),
    claim?.holds && tone(true, found) === "fails" && h("b.fails", "does not hold"),
  );
}

/** Which part of a candidate decides a claim, and why. */
function reasons(all: Candidate[]): HTMLElement | undefined {
  const known = all.filter(({ claims }) => (claims ?? []).some(({ reason, decided_by }) => reason || decided_by));
  if (!known.length) return undefined;
  return h(
    "details",
    h("summary", "Which part decides each claim"),
    known.map(({ name, claims }) =>
      h(
        "div.reasons",
        h("h3", name),
        h("ul", (claims ?? []).map(({ action, holds, decided_by, reason }) => h("li", h("b", action), holds ? " holds" : " is not claimed", decided_by ? [", because of ", h("code", decided_by)] : [], reason ? `: ${reason}` : "", "."))), // prettier-ignore
      ),
    ),
  );
}

// The evidence of a row: the result in words, the smallest counterexample, where it breaks, the proof.
import type { Proof, Report, Row, ReportRow } from "../../core/contract";
import { button, h } from "../../core/dom";
import { capital, error, scientific } from "../../core/format";
import { copied } from "../../core/save";
import { counterexample } from "./counterexample";
import { trail } from "./trail";
import { typeset } from "./typeset";

/** What a proof says by itself; its reason, below, has the sizes and values, or why there is no proof. */
export const ANSWERS: Record<Proof["answer"], string> = {
  proved: "Proved from the operations, for these sizes and values:",
  refuted: "Refuted: an operation mixes values that must be independent.",
  unknown: "Neither proved nor refuted.",
};

export function evidence(row: Row, reportRow: ReportRow, report: Report): HTMLElement {
  const tolerance = report.audit.tolerance ?? 1e-2;
  return h(
    "div.evidence",
    card("Result", result(row, reportRow), note(row.note ?? ""), facts(row), repeat(reportRow)),
    row.counterexample &&
      card(
        "Smallest counterexample",
        h(
          "p.strong",
          capital(row.counterexample.text),
          row.counterexample.error < 0 && report.audit.served
            ? "."
            : [": ", h("b", row.counterexample.error < 0 ? "not finite" : error(row.counterexample.error))],
        ),
        !report.audit.served && counterexample(row.counterexample, report.audit.inputs),
      ),
    (row.trail ?? []).length > 0 && card("Where it breaks", place(row, report), trail(row, tolerance)),
    row.proof && card("Proof over the graph of operations", proof(row.proof)),
  );
}

const card = (title: string, ...rest: Parameters<typeof h>[1][]): HTMLElement => h("section.card", h("h2", title), ...rest);

const result = (row: Row, reportRow: ReportRow): HTMLElement =>
  h(
    "div.found",
    row.summary && h("p.statement", "Statement: ", row.summary, "."),
    reportRow.finding.map((sentence, i) => h(i ? "p" : "p.first", typeset(sentence))),
  );

/** A note; a long one, such as a list of exceptions, is folded. */
function note(text: string): HTMLElement | undefined {
  if (!text) return undefined;
  if (text.length < 240) return h("p.quiet", "Note: ", typeset(text));
  return h("details.note", h("summary", `Note: ${text.slice(0, 110)} …`), h("p", text));
}

function facts(row: Row): HTMLElement {
  const known: [string, string | undefined][] = [
    ["output", row.output],
    ["parameters", row.parameters],
    ["median error", row.median === null || row.median === undefined ? undefined : error(row.median)],
    ["in float32", row.error32 === null || row.error32 === undefined ? undefined : error(row.error32)],
    ["rounding alone", row.floor ? scientific(row.floor) : undefined],
    ["Lie derivative", row.lie_derivative === null || row.lie_derivative === undefined ? undefined : error(row.lie_derivative)],
    ["model calls", row.passes ? String(row.passes) : undefined],
    ["seconds", row.seconds ? row.seconds.toFixed(2) : undefined],
  ];
  return h(
    "dl.facts",
    known.flatMap(([name, text]) => (text ? [h("div", h("dt", name), h("dd", text))] : [])),
  );
}

function repeat(reportRow: ReportRow): HTMLElement {
  const press = button("Copy", "Copy the command that measures this row", async () => {
    press.textContent = (await copied(reportRow.command)) ? "Copied" : "Select it and copy";
  });
  return h(
    "div.again",
    h("span.quiet", "Measure this row only"),
    h(
      "pre",
      { tabindex: 0 },
      reportRow.command.split(" ").flatMap((word, i) => [i > 0 && " ", h("span", word)]),
    ),
    press,
  );
}

function place(row: Row, report: Report): HTMLElement {
  const whole = row.where === report.audit.model;
  return h(
    "p.strong",
    whole ? "In the model itself, between its modules: " : "First in ",
    h("code", row.where || "no module alone"),
    row.cause ? `: ${typeset(row.cause)}.` : ".",
  );
}

const proof = ({ answer, operation, where, reason }: Proof): HTMLElement =>
  h(
    "div",
    { "data-proof": answer },
    h("p.strong", ANSWERS[answer]),
    operation &&
      h("p", answer === "refuted" ? "By " : "First: ", h("code", operation), where ? [" in ", h("code", where)] : [], "."),
    reason && h("p", typeset(capital(reason)), /[.!?]$/.test(reason) ? "" : "."),
  );

// The page of an evaluation: metrics with their intervals beside the simple models, a second run, confusions or predicted numbers, and the
// worst examples. It shows the record and computes nothing.
import type { EvaluationRecord, PartEvaluation } from "../../core/contract";
import { asPart, button, h } from "../../core/dom";
import { download } from "../../core/save";
import { Store } from "../../core/store";
import { sources } from "../../core/tables";
import { navigation } from "../../widgets/navigation";
import { confusion } from "./confusion";
import { differences, metrics } from "./metrics";
import { numbers } from "./numbers";
import { type EvaluationState, stateOf } from "./state";
import { worst } from "./worst";
import "./evaluation.css";

/** The interface of the page for scripts. */
export interface EvaluationPage extends Store<EvaluationState> {
  evaluation: EvaluationRecord;
}

export function mount(evaluation: EvaluationRecord, root: HTMLElement): EvaluationPage {
  const page: EvaluationPage = Object.assign(new Store(stateOf(evaluation)), { evaluation });
  const [top, main] = [h("div"), h("main", { id: "story" })];
  const draw = () => {
    const part = evaluation.parts.find(({ part }) => part === page.state.part)!;
    top.replaceChildren(...heading(page, part));
    main.replaceChildren(...sections(evaluation, part));
  };
  document.body.classList.add("evaluated");
  root.replaceChildren(
    h("header", navigation("evaluation"), titled(evaluation), top),
    main,
    h("footer", "equiscope: every number on this page is in the record inside it. It works offline and sends nothing anywhere."),
  );
  page.onChange(draw);
  draw();
  return page;
}

export const named = (folder: string): string => folder.replace(/\/+$/, "").replace(/^.*\//, "");

function titled(evaluation: EvaluationRecord): HTMLElement {
  const save = () => download(new Blob([JSON.stringify(evaluation, null, 1)], { type: "application/json" }), "evaluation.json"); // prettier-ignore
  const beside = evaluation.other ? ` beside ${named(evaluation.other)}` : "";
  return h(
    "div.top",
    h("h1", { "data-part": "title" }, `Evaluation of ${named(evaluation.run)}${beside}`),
    h("div.buttons", button("Download record", "Save the whole record as evaluation.json", save)),
  );
}

function heading(page: EvaluationPage, part: PartEvaluation): HTMLElement[] {
  const { evaluation } = page;
  const names = evaluation.parts.map(({ part }) => part);
  const facts: [string, string][] = [
    ["run", evaluation.run],
    ...(evaluation.other ? [["second run", evaluation.other] as [string, string]] : []),
    ["task", evaluation.task],
    ["weights", evaluation.weights],
    ["measured on", part.part === "data" ? "new data" : `the ${part.part} part of its data`],
  ];
  return [
    h("p.summary", { "data-part": "summary" }, part.summary ?? ""),
    h("dl.facts", facts.map(([name, text]) => h("div", h("dt", name), h("dd", text)))), // prettier-ignore
    ...[...(part.warnings ?? []), ...(evaluation.notes ?? [])].map((text) => h("p.notice", text)),
    ...(names.length > 1
      ? [
          h(
            "div.parts",
            { role: "group", "aria-label": "part of the data" },
            names.map((name) => button(name, `Show the ${name} part`, () => page.set({ part: name }), { "aria-pressed": String(name === part.part), "data-key": name })), // prettier-ignore
          ),
        ]
      : []),
  ];
}

function sections(evaluation: EvaluationRecord, part: PartEvaluation): HTMLElement[] {
  const ways = Object.entries(evaluation.signatures ?? {});
  return [
    metrics(evaluation, part),
    (part.differences ?? []).length > 0 && differences(evaluation, part),
    (part.confusion ?? []).length > 0 && confusion(part),
    ...(part.numbers ?? []).map(numbers),
    (part.worst ?? []).length > 0 && worst(part),
    (ways.length > 0 || (evaluation.data ?? []).length > 0) &&
      asPart(
        "provenance",
        h(
          "section.part",
          h("h2", "How it was measured"),
          ways.length > 0 && h("dl.ways", ways.map(([name, how]) => h("div", h("dt", name), h("dd", how)))), // prettier-ignore
          (evaluation.data ?? []).length > 0 && sources(evaluation.data!),
        ),
      ),
  ].filter((one) => one !== false);
}

// The page of a comparison: the answer, the candidates, the verdicts on their differences, the plots, the provenance.
import type { Comparison } from "../../core/contract";
import { spoken } from "../../core/format";
import { button, h } from "../../core/dom";
import { download } from "../../core/save";
import { Store } from "../../core/store";
import { copied } from "../../core/save";
import { navigation } from "../../widgets/navigation";
import { extrapolation } from "./extrapolation";
import { candidates, runs } from "./candidates";
import { cost } from "./cost";
import { curves } from "./curves";
import { type Group, groups } from "./groups";
import { provenance } from "./provenance";
import { decimals } from "./numbers";
import { pairs } from "./pairs";
import { csv, named } from "./csv";
import { type CompareState, stateOf } from "./state";
import { symmetries } from "./symmetries";
import "./compare.css";

const LONG = 90; // characters of an answer that is written smaller
const NOTES = 6; // notes that are shown; more are folded

/** The interface of the page for scripts. */
export interface ComparePage extends Store<CompareState> {
  comparison: Comparison;
  groups: Group[];
  decimals: number; // of the deciding metric
  file: string; // the stem of saved files
  drawn(): Group[];
}

export function mount(comparison: Comparison, root: HTMLElement): ComparePage {
  const all = groups(comparison);
  const page: ComparePage = Object.assign(new Store(stateOf(all.length)), {
    comparison,
    groups: all,
    decimals: decimals(all.map(({ value }) => value)),
    file: named(comparison.title),
    drawn: () => all.filter(({ index }) => !page.state.without.includes(index)),
  });
  const plots = [curves(page), extrapolation(page), cost(page)].filter((plot) => plot !== undefined);
  const draw = () => plots.forEach((plot) => plot.draw());
  document.body.classList.add("compare");
  root.replaceChildren(
    header(page),
    h(
      "main",
      { id: "story" },
      candidates(page),
      pairs(page),
      plots.map(({ element }) => element),
      symmetries(page),
      comparison.trials.length > 0 &&
        h("details.part.every", { "data-part": "runs" }, h("summary", "Every run as a table"), runs(page)),
      provenance(page),
    ),
    h("footer", { "data-part": "footer" }, "equiscope: every number on this page is in the record inside it, or is a mean or spread of such numbers. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  page.onChange(draw);
  draw();
  return page;
}

function header(page: ComparePage): HTMLElement {
  const { comparison, file } = page;
  const text = () => JSON.stringify(comparison, null, 1);
  const status = h("span.quiet", { role: "status" });
  const copy = async () => {
    status.textContent = (await copied(text())) ? "Copied." : "This browser does not allow a file to copy: download it instead.";
  };
  const save = (kind: string, type: string, text: () => string) =>
    button(kind, `Save as ${file}.${kind.toLowerCase()}`, () => download(new Blob([text()], { type }), `${file}.${kind.toLowerCase()}`), { "aria-label": `Save as ${kind}` }); // prettier-ignore
  const notes = comparison.notes ?? [];
  return h(
    "header",
    navigation("compare"),
    h(
      "div.top",
      comparison.answer && h("p.title", { "data-part": "title" }, comparison.title),
      h(
        "div.buttons",
        { "data-part": "tools" },
        status,
        button("Copy", "Copy the whole record as JSON", copy),
        save("JSON", "application/json", text),
        save("CSV", "text/csv", () => csv(comparison)),
      ),
    ),
    h("h1", { "data-part": "answer", "data-long": (comparison.answer ?? "").length > LONG }, comparison.answer || comparison.title),
    comparison.question && h("p.question", { "data-part": "question" }, h("span.spoken", "The question: "), comparison.question),
    facts(page),
    notes.length > 0 && h("ul.notes", { "data-part": "notes" }, notes.slice(0, NOTES).map((note) => h("li", note))), // prettier-ignore
    notes.length > NOTES && h("details", { "data-part": "notes" }, h("summary", `${notes.length - NOTES} more`), h("ul.notes", notes.slice(NOTES).map((note) => h("li", note)))), // prettier-ignore
  );
}

function facts({ comparison, groups }: ComparePage): HTMLElement {
  const { trials, seeds, varied } = comparison;
  const done = trials.filter(({ state, value }) => state === "finished" && value != null).length;
  const seconds = trials.reduce((sum, trial) => sum + (trial.seconds ?? 0), 0);
  const known: [string, string][] = [
    ["metric", `${comparison.part} ${comparison.metric}, ${comparison.better} is better`],
    ["candidates", String(groups.length)],
    ["smallest effect that matters", comparison.smallest_effect == null ? "" : String(comparison.smallest_effect)],
    [seeds.length === 1 ? "seed" : "seeds", seeds.length > 6 ? `${seeds.length} of them` : seeds.join(", ")],
    ["runs", done === trials.length ? String(done) : `${done} of ${trials.length} finished`],
    ["total training time", seconds ? spoken(seconds) : ""],
    ["varied", varied.join(", ")],
    ["task", comparison.task],
  ];
  return h("dl.facts", { "data-part": "facts" }, known.map(([name, text]) => text && h("div", h("dt", name), h("dd", text)))); // prettier-ignore
}

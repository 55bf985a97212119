// The page of a report: one sentence, the facts of the audit, the table. It shows the record and computes nothing.
import type { Report, ServedModel } from "../../core/contract";
import { asPart, button, h } from "../../core/dom";
import { capital, scientific } from "../../core/format";
import { copied, download } from "../../core/save";
import { fragment, Store } from "../../core/store";
import { rows, tone } from "./rows";
import { share } from "./scale";
import { type ReportState, stateOf } from "./state";
import { shape, WORDS } from "../../widgets/verdict";
import { navigation } from "../../widgets/navigation";
import "./report.css";

const KEY = [
  ["i.dot", "a sample"],
  ["i.dot.worst", "worst sample"],
  ["i.band", "rounding floor"],
];

const SIGNS = { fails: "broken", holds: "holds", undecided: "undecided" } as const; // of the whole audit

/** The interface of the page for scripts. */
export interface ReportPage extends Store<ReportState> {
  report: Report;
}

export function mount(report: Report, root: HTMLElement): ReportPage {
  const main = h("main", { id: "story" });
  const page: ReportPage = Object.assign(new Store(stateOf(report)), { report });
  const toggle = (id: string) => {
    const { rows } = page.state;
    page.set({ rows: rows.includes(id) ? rows.filter((one) => one !== id) : [...rows, id] });
    opener(main, id)?.focus({ preventScroll: true });
  };
  const kept = new Map<string, HTMLElement>(); // evidence that was opened once, so that its state is kept
  const how = legend(report);
  const draw = () => main.replaceChildren(controls(page), asPart("rows", rows(report, page.state, toggle, kept)), how);
  document.body.classList.add("reported");
  root.replaceChildren(header(report), main, h("footer", { "data-part": "footer" }, "equiscope: every number on this page is in the record inside it. It works offline and sends nothing anywhere.")); // prettier-ignore
  page.onChange(draw);
  draw();
  window.addEventListener("hashchange", () => {
    main.querySelector(`.stated[data-row="${CSS.escape(page.state.rows.at(-1) ?? "")}"]`)?.scrollIntoView({ block: "start" });
  });
  if (fragment().includes("row=") && page.state.rows.length) opener(main, page.state.rows[0])?.scrollIntoView({ block: "center" });
  main.addEventListener("keydown", (event) => walk(event, main, page, toggle));
  forPrint(page, draw);
  return page;
}

const opener = (main: HTMLElement, id: string): HTMLElement | null => main.querySelector(`[data-open="${CSS.escape(id)}"]`);

/** Arrow keys move between rows; Escape closes the current row. */
function walk(event: KeyboardEvent, main: HTMLElement, page: ReportPage, toggle: (id: string) => void): void {
  const here = event.target as HTMLElement;
  if (event.key === "Escape") {
    const id = here.dataset.open ?? here.closest<HTMLElement>("tr.opened")?.dataset.row;
    if (id && page.state.rows.includes(id)) toggle(id);
    return;
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !here.dataset.open) return;
  const all = [...main.querySelectorAll<HTMLElement>("[data-open]")];
  all[all.indexOf(here) + step]?.focus();
  event.preventDefault();
}

/** For print, failing rows are opened. */
function forPrint(page: ReportPage, draw: () => void): void {
  let before = page.state;
  addEventListener("beforeprint", () => {
    before = page.state;
    const failing = page.report.rows.filter((_, i) => page.report.audit.rows[i].fails).map(({ id }) => id);
    page.state = { ...before, rows: [...new Set([...before.rows, ...failing])] };
    draw();
  });
  addEventListener("afterprint", () => {
    page.state = before;
    draw();
  });
}

function header(report: Report): HTMLElement {
  const { audit } = report;
  const text = () => JSON.stringify(audit, null, 1);
  const status = h("span.quiet", { role: "status" });
  const copy = async () => {
    status.textContent = (await copied(text())) ? "Copied." : "This browser does not allow a file to copy: download it instead.";
  };
  const name = `${report.title.replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "") || "audit"}.json`;
  const tones = audit.rows.map(tone);
  const state = tones.includes("fails") ? "fails" : tones.includes("holds") && (audit.finished ?? true) ? "holds" : "undecided";
  return h(
    "header",
    navigation("check"),
    h(
      "div.top",
      h("h1", { "data-part": "title" }, `Check of ${report.title}`),
      h(
        "div.buttons",
        { "data-part": "tools" },
        status,
        button("Copy as JSON", "Copy the whole record", copy),
        button("Download record", `Save the whole record as ${name}`, () => download(new Blob([text()], { type: "application/json" }), name)), // prettier-ignore
      ),
    ),
    h("p.summary", { "data-part": "summary", "data-tone": state }, shape(SIGNS[state]), h("span", report.summary)),
    facts(report),
    (audit.notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
  );
}

/** How a served model was asked. */
const asked = (served: ServedModel): [string, string][] => [
  ["asked for", served.api],
  ["requests", `${served.requests} of at most ${served.budget}`],
  [
    "tokens",
    `${served.prompt_tokens.toLocaleString("en")} of prompts, ${served.completion_tokens.toLocaleString("en")} of answers`,
  ],
  ["rounding", `${scientific(served.noise)} nats, typically`],
  ["spread of logprobs", `${served.size.toPrecision(2)} nats, to which errors are relative`],
];

const OF_MODULES = ["parameters", "runs in", "model calls", "measured in"]; // facts that a served model does not have

function facts({ audit }: Report): HTMLElement {
  const list = (found: Record<string, unknown> | undefined) =>
    Object.entries(found ?? {}).map(([name, value]) => `${name} ${value}`).join(", "); // prettier-ignore
  const passes = Object.entries(audit.passes ?? {}).map(([dtype, count]) => `${count} in ${dtype}`).join(", "); // prettier-ignore
  const rows = Object.values(audit.sequences ?? {}).reduce((sum, count) => sum + count, 0);
  const served: [string, string][] = audit.served ? asked(audit.served) : [];
  const known: [string, string][] = [
    [audit.served ? "model" : "class", audit.model],
    ...served,
    ["parameters", audit.parameters.toLocaleString("en")],
    ["runs in", `${audit.dtype} on ${audit.device}`],
    ["inputs", audit.inputs],
    ["model calls", passes ? `${passes}, with ${rows} rows in all` : "none"],
    ["measured in", audit.mode === "train" ? "training mode, dropout off" : "evaluation mode"],
    ["seconds", (audit.seconds ?? 0).toFixed(1)],
    ["effort", `${audit.effort ?? "default"}, seed ${audit.seed ?? 0}`],
    ["versions", list(audit.versions)],
  ];
  const shown = audit.served ? known.filter(([name]) => !OF_MODULES.includes(name)) : known;
  return h("dl.facts", { "data-part": "facts" }, shown.map(([name, text]) => h("div", h("dt", name), h("dd", text)))); // prettier-ignore
}

function controls(page: ReportPage): HTMLElement {
  const { report, state } = page;
  const failing = report.audit.rows.filter(({ fails }) => fails).length;
  const ids = report.rows.map(({ id }) => id);
  const some = state.rows.length > 0;
  return h(
    "div.controls",
    { "data-part": "controls" },
    failing > 0 && button(`Failures only (${failing})`, "Hide every row that does not fail", () => page.set({ only: !state.only }), { "aria-pressed": String(state.only), class: "only" }), // prettier-ignore
    button(some ? "Close all" : "Open all", some ? "Close every row" : "Open every row", () => page.set({ rows: some ? [] : ids })),
    h(
      "div.key",
      KEY.map(([mark, text]) => h("span", h(mark), text)),
      h("span", h("i.dashed"), `${share(report.audit.tolerance ?? 1e-2)}, below it approximate`),
    ),
  );
}

const ERRORS = "Errors are relative: ‖difference‖ / ‖expected‖. They are measured in float64 and in a lower precision: a rounding error shrinks with the precision, a violation does not."; // prettier-ignore
const SERVED_ERRORS = "Errors are differences of logprobs, relative to their spread at one position. Rounding is measured on the server: it computes the same numbers in several ways, and up to 32 times their typical difference is rounding."; // prettier-ignore

/** How to read the page: the meaning of each verdict, and when a row fails. */
function legend({ audit }: Report): HTMLElement {
  const meaning = Object.entries(WORDS) as [keyof typeof WORDS, string][];
  return h(
    "details.legend",
    { "data-part": "legend" },
    h("summary", "How to read this page"),
    h(
      "ul",
      meaning.map(([verdict, words]) => h("li", shape(verdict), h("b", verdict), ` ${words}`)),
    ),
    h("p", audit.served ? SERVED_ERRORS : ERRORS),
    h("p", `${capital("a row")} fails where the statement is claimed by the model, requested by name, or expected of every model, and does not hold. “no violation in 12 samples (95 % interval: below 25 % of inputs)” means: with 95 % confidence, fewer than a quarter of such inputs violate it.`), // prettier-ignore
    h("p.quiet", `No tolerance decides whether a statement holds. A violation below ${share(audit.tolerance ?? 1e-2)} is called approximate, a larger one broken.`), // prettier-ignore
  );
}

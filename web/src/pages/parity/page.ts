// The page of a comparison: the result, the outputs, and both sides layer by layer down to numbers. It shows the record and computes
// nothing but the difference of two printed numbers.
import type { Parity, ParityAnswers, ParityDifference, ParityLayer, ParityPair, ParityStep } from "../../core/contract";
import { asPart, button, h } from "../../core/dom";
import { error, number, scientific } from "../../core/format";
import { download } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { judged, shape } from "../../widgets/verdict";
import { type ParityState, stateOf } from "./state";
import "./parity.css";

/** The interface of the page for scripts. */
export interface ParityPage extends Store<ParityState> {
  parity: Parity;
}

const UNKNOWN = "no listed cause reproduces the difference";
const STATES = { equal: "equal", differs: "first difference", unpaired: "no equal" } as const;

export function mount(parity: Parity, root: HTMLElement): ParityPage {
  const main = h("main", { id: "story" });
  const page: ParityPage = Object.assign(new Store(stateOf(parity)), { parity });
  const toggle = (key: string) => {
    const { open } = page.state;
    page.set({ open: open.includes(key) ? open.filter((one) => one !== key) : [...open, key] });
    main.querySelector<HTMLElement>(`[data-key="${key}"]`)?.focus({ preventScroll: true });
  };
  const draw = () =>
    main.replaceChildren(
      outputs(parity),
      ...precision(parity),
      ...((parity.layers ?? []).length ? [layers(parity, page.state.open, toggle)] : []),
    );
  document.body.classList.add("compared");
  root.replaceChildren(
    header(parity),
    main,
    h("footer", "equiscope: every number on this page is in the record inside it. It works offline and sends nothing anywhere."),
  );
  page.onChange(draw);
  draw();
  main.addEventListener("keydown", (event) => walk(event, main));
  return page;
}

/** Arrow keys move between the buttons of layers and steps. */
function walk(event: KeyboardEvent, main: HTMLElement): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const here = event.target as HTMLElement;
  if (!step || !here.dataset.key) return;
  const all = [...main.querySelectorAll<HTMLElement>("[data-key]")];
  all[all.indexOf(here) + step]?.focus();
  event.preventDefault();
}

function header(parity: Parity): HTMLElement {
  const holds = parity.verdict === "holds";
  const tone = holds ? "holds" : alone(parity) ? "approximate" : parity.verdict === "undecided" ? "undecided" : "fails";
  const save = () => download(new Blob([JSON.stringify(parity, null, 1)], { type: "application/json" }), "parity.json");
  return h(
    "header",
    navigation("parity"),
    h(
      "div.top",
      h("h1", { "data-part": "title" }, `Parity of ${parity.a} and ${parity.b}`),
      h("div.buttons", button("Download record", "Save the whole record as parity.json", save)),
    ),
    h("p.summary", { "data-part": "summary", "data-tone": tone }, shape(parity.verdict), h("span", summary(parity))),
    !holds && parity.step_a && found(parity),
    h(
      "dl.facts",
      h("div", h("dt", "A"), h("dd", parity.a)),
      h("div", h("dt", "B"), h("dd", parity.b)),
      h("div", h("dt", "values of A with an equal in B"), h("dd", `${parity.aligned ?? 0} of ${parity.values ?? 0}`)),
    ),
    [...(parity.answers ?? []).map(answered), ...(parity.notes ?? [])].map((note) => h("p.notice", note)),
  );
}

function summary(parity: Parity): string {
  if (parity.verdict === "holds") return "Both compute the same, up to rounding.";
  if (parity.verdict === "undecided") return "Nothing could be decided: an output is not a finite number.";
  if (alone(parity)) return `They differ in precision alone (${parity.cause}).`;
  const causes = [parity, ...(parity.further ?? [])].map((one) => one.cause || UNKNOWN);
  if (causes.length > 1) return `They differ in ${causes.length} ways: ${causes.join("; ")}.`;
  return parity.cause ? `They differ: ${parity.cause}.` : `They differ, and ${UNKNOWN}.`;
}

/** Whether only the precision of the weights, or their quantization, is between the two. */
const alone = ({ kind }: Parity): boolean => kind === "precision" || kind === "quantization";

const answered = ({ output, count, changed, rank, error }: ParityAnswers): string =>
  `${output}: ${changed} of ${count} top answers change; A's top answer has at worst rank ${rank} in B. The numbers differ by ${size(error)}.`;

/** Of models that differ in their precision: the drift of each layer, and the weights of a quantized model. */
function precision({ drift = [], weights = [] }: Parity): HTMLElement[] {
  const most = Math.max(...drift.map(({ error }) => error));
  const bar = (error: number) => h("span.bar", { style: `width: ${(100 * error) / most}%`, "aria-hidden": "true" });
  const drifted = drift.map(({ layer, error }) => [h("code", layer), h("span.drift", size(error), bar(error))]);
  const held = weights.map(({ a, b, state, note, bits, scales, error }) => [h("code", a || "–"), h("code", b || "–"), note ? `${state}: ${note}` : state, bits ? `${bits}` : "–", scales || "–", size(error)]); // prettier-ignore
  return [
    drifted.length &&
      asPart("drift", listed("Difference at the end of each layer", ["layer of A", "relative difference"], drifted)),
    held.length && asPart("weights", listed("Weight matrices", ["in A", "in B", "state", "bits", "scales", "difference"], held)),
  ].filter((part) => part instanceof HTMLElement);
}

const size = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : error(value));

const listed = (title: string, heads: string[], rows: (HTMLElement | string)[][]): HTMLElement =>
  h(
    "div.wide",
    h(
      "table.outputs",
      h("caption", title),
      h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
      h("tbody", rows.map(([first, ...rest]) => h("tr", h("th", { scope: "row" }, first), rest.map((cell) => h("td", cell))))), // prettier-ignore
    ),
  );

/** The steps that differ on both sides, and what confirmed each cause. */
function found(parity: Parity): (HTMLElement | false)[] {
  const further = (parity.further ?? []).map((one, i) => difference(one, `Difference ${i + 2}`, one.cause || UNKNOWN));
  return [difference(parity, "First difference", further.length ? parity.cause || UNKNOWN : ""), ...further];
}

function difference(one: Parity | ParityDifference, title: string, cause: string): HTMLElement {
  const side = (name: string, step: ParityStep | null | undefined) =>
    h("div.card", h("h2", `${title} in ${name}`), step ? h("p", described(step)) : h("p", "no step"), step && h("p.quiet", sizes(step))); // prettier-ignore
  const again = ("repeated" in one && one.repeated) || [];
  return h(
    "section.sides",
    { "data-part": "difference", "aria-label": title },
    cause && h("p.cause", cause),
    side("A", one.step_a),
    side("B", one.step_b),
    again.length > 0 && h("p.quiet", `Again in ${again.join(", ")}.`),
    one.evidence && h("p.quiet", `Tried: ${one.evidence}.`),
  );
}

const described = (step: ParityStep): HTMLElement | string =>
  step.operation
    ? h("span", h("b", step.operation), " in ", h("code", step.module || "the model"))
    : h("span", h("code", step.value));
const sizes = (step: ParityStep): string => `shape ${(step.shape ?? []).join(" × ") || "of one number"}`;

function outputs(parity: Parity): HTMLElement {
  const rows = parity.rows.map((row) => [
    h("span", row.name, row.note && h("span.quiet", row.note)),
    judged(row.verdict),
    size(row.error ?? row.error32),
    size(row.floor),
  ]);
  return asPart("outputs", listed("Outputs", ["output", "verdict", "error, relative", "rounding of one pass of A"], rows));
}

function layers(parity: Parity, open: string[], toggle: (key: string) => void): HTMLElement {
  const all = parity.layers ?? [];
  return asPart(
    "layers",
    h(
      "section.layers",
      h("h2", "Layer by layer"),
      h("p.quiet", "Steps that only move numbers are left out. “No equal” is no difference by itself: one side may compute in other steps."), // prettier-ignore
      all.map((layer, i) => one(layer, String(i), open, toggle)),
    ),
  );
}

function one(layer: ParityLayer, key: string, open: string[], toggle: (key: string) => void): HTMLElement {
  const now = open.includes(key);
  const pairs = layer.pairs ?? [];
  const name = [...new Set([layer.a, layer.b].filter(Boolean))].join(" · ") || "outside the layers";
  return h(
    "section.layer",
    { "data-differs": layer.differs ? "true" : false },
    h(
      "h3",
      opener(key, now, name, toggle),
      h("span.quiet", `${layer.paired} of ${pairs.length} steps equal`),
      layer.differs && h("b.here", "first difference"),
    ),
    now &&
      h(
        "table.paired",
        { role: "table" },
        h("caption.spoken", `Steps of ${name}`),
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ["step of A", "step of B", "state", "difference"].map((text) => h("th", { scope: "col", role: "columnheader" }, text)))), // prettier-ignore
        h(
          "tbody",
          { role: "rowgroup" },
          pairs.flatMap((pair, j) => lines(pair, `${key}.${j}`, open, toggle)),
        ),
      ),
  );
}

const opener = (key: string, now: boolean, text: string, toggle: (key: string) => void, label = text) =>
  button(text, now ? "Close" : "Open", () => toggle(key), {
    class: "opener",
    "aria-expanded": String(now),
    "aria-label": label,
    "data-key": key,
  });

function lines(pair: ParityPair, key: string, open: string[], toggle: (key: string) => void): HTMLElement[] {
  const now = open.includes(key);
  const word = STATES[pair.state];
  const side = (step: ParityStep | null | undefined, name: string) =>
    step
      ? [h("span.side", `${name}: `), h("b", step.operation || step.value), h("code", step.module)]
      : [h("span.spoken", `${name}: `), "–"];
  const first = pair.a ?? pair.b!;
  const line = h(
    "tr.step",
    { role: "row", "data-state": pair.state },
    h("th", { scope: "row", role: "rowheader" }, opener(key, now, "", toggle, `${first.operation || first.value}, ${word}`), side(pair.a, "A")), // prettier-ignore
    h("td", { role: "cell" }, side(pair.b, "B")),
    h("td.state", { role: "cell" }, word),
    h("td.size", { role: "cell" }, pair.error === null || pair.error === undefined ? "–" : error(pair.error)),
  );
  return now ? [line, h("tr.opened", { role: "row" }, h("td", { role: "cell", colspan: 4 }, numbers(pair)))] : [line];
}

/** The same block of both sides, and where they differ the difference of the printed numbers. */
function numbers(pair: ParityPair): HTMLElement {
  const ours = pair.numbers_a ?? [];
  const theirs = pair.numbers_b?.length ? pair.numbers_b : pair.b ? ours : [];
  const gap = pair.state === "differs" && ours.length && theirs.length === ours.length && ours.map((line, i) => line.map((x, j) => (x === null || (theirs[i][j] ?? null) === null ? null : theirs[i][j]! - x))); // prettier-ignore
  return h(
    "div.blocks",
    ours.length > 0 && block("A", ours, pair, pair.a),
    theirs.length > 0 && block("B", theirs, pair, pair.b),
    gap && block("B − A", gap, pair),
  );
}

function block(
  title: string,
  rows: (number | null)[][],
  { row = 0, column = 0 }: ParityPair,
  step?: ParityStep | null,
): HTMLElement {
  const text = (x: number | null) => (x === null ? "not finite" : x !== 0 && Math.abs(x) < 1e-3 ? scientific(x) : number(x, 4));
  return h(
    "div.block",
    { tabindex: 0, role: "region", "aria-label": `Numbers of ${title}` },
    h(
      "table",
      h("caption", title, step && h("span.quiet", ` ${sizes(step)}`)),
      h(
        "thead",
        h(
          "tr",
          h("td"),
          rows[0]?.map((_, j) => h("th", { scope: "col" }, String(column + j))),
        ),
      ),
      h("tbody", rows.map((line, i) => h("tr", h("th", { scope: "row" }, String(row + i)), line.map((x) => h("td", text(x)))))), // prettier-ignore
    ),
  );
}

// The page of all heads: the overview first, then the chosen head, its statistics, and the learned position embeddings.
import type { Heads } from "../../core/contract";
import { button, h } from "../../core/dom";
import { save } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { rerunPanel } from "./rerun";
import { pairTable, otherRecord, modelSwitch } from "./side_by_side";
import { interventionsOf } from "./changes";
import { alignmentPanel } from "./alignment";
import { detail } from "./detail";
import { ModelAnswers } from "./model_answers";
import { type Change, changeCode } from "./model_change";
import { modelPanel } from "./model_panel";
import { rankingPanel } from "./model_ranking";
import { legend, mosaic } from "./mosaic";
import { positionTables } from "./position_tables";
import { withRollout } from "./rollout";
import { predictionPanel } from "./predictions";
import { type HeadsState, stateOf } from "./state";
import { statistics } from "./statistics";
import { HeadSource } from "./head_source";
import { Attention, NONE, type Score } from "./weights";
import "./heads.css";

/** The interface of the page for scripts. */
export interface HeadsPage extends Store<HeadsState> {
  record: Heads;
  first: Heads; // of the first run; `record` may be of a rerun
  supply: HeadSource;
  more: HeadSource; // for panels of several heads, so that their requests do not abort the one of the chosen head
  other?: Heads; // the other model, side by side
  others?: HeadSource; // the source of its tensors
  answers?: ModelAnswers; // the model's answers to changes; undefined on a rerun
  cursor: { row?: number; column?: number } | undefined; // what is pointed at
  renew(record: Heads): void;
  open(layer: number, head: number): void;
  close(): void;
  changeOf(text: string): Change | undefined; // the change of the model that a text of the link is
  point(cell: { row?: number; column?: number } | undefined): void;
  weights(layer: number, head: number, row: number, changed?: boolean): Promise<number[]>;
  score(layer: number, head: number, row: number, column: number): Promise<Score>;
}

export function mount(whole: Heads, root: HTMLElement): HeadsPage {
  const record = withRollout(whole);
  const counts = record.layers.map(({ heads }) => heads.length);
  const page: HeadsPage = Object.assign(new Store(stateOf(counts)), {
    record,
    first: record,
    ...sources(record),
    answers: record.interventions ? new ModelAnswers(record, () => answered()) : undefined,
    cursor: undefined as HeadsPage["cursor"],
    changeOf: changeCode(counts).read,
    open(layer: number, head: number) {
      page.set({ open: [layer, head] });
      const { element } = shown.one;
      const box = element.getBoundingClientRect();
      if (box.top > innerHeight * 0.7 || box.bottom < 0) element.scrollIntoView({ block: "start", behavior: calm() });
    },
    renew(found: Heads) {
      const next = found === page.first ? found : withRollout(found);
      page.set({ row: undefined, column: undefined, hidden: {}, edits: [] }, { step: false });
      Object.assign(page, { record: next, other: undefined, others: undefined, ...sources(next) });
      shown = parts(page);
      desk.replaceChildren(...shown.elements);
      draw();
    },
    close() {
      page.set({ open: undefined });
      shown.overview.element.querySelector<HTMLElement>(".field")?.focus();
    },
    point(cell: HeadsPage["cursor"]) {
      if (cell?.row === page.cursor?.row && cell?.column === page.cursor?.column) return;
      page.cursor = cell;
      shown.one.hover();
    },
    async weights(layer: number, head: number, row: number, changed = true) {
      return [...(await attention(layer, head, changed)).row(row)];
    },
    async score(layer: number, head: number, row: number, column: number) {
      return (await attention(layer, head, true)).score(row, column);
    },
  });
  async function attention(layer: number, head: number, changed: boolean): Promise<Attention> {
    const given = await page.supply.get(layer, head);
    if (!given) throw new Error(`Layer ${layer} has no tensors. ${record.layers[layer].reason ?? ""}`);
    return new Attention(given, changed ? interventionsOf(page.state, layer, head, record.layers[layer].key_sequence) : NONE);
  }

  let shown = parts(page);
  const desk = h("div.desk", shown.elements);
  document.body.classList.add("heads");
  root.replaceChildren(
    header(whole),
    h("main", { id: "story" }, record.served && rerunPanel(page), record.layers.length ? desk : h("p.notice", "This model computes no attention on this input."), !record.served && rerunPanel(page), positionTables(record.position_tables)), // prettier-ignore
    h("footer", { "data-part": "footer" }, record.served ? "equiscope: this page loads the tensors of a head from the command on this machine, and nothing from anywhere else." : `equiscope: ${record.layers.some(({ tensors: numbers }) => numbers?.relative_error) ? "this is a compact file, and its weights are rounded" : "every weight on this page is computed in your browser from the tensors inside it"}. It works offline and sends nothing anywhere.`), // prettier-ignore
  );

  /** all: not only the chosen head. */
  function draw(all = true): void {
    shown.model?.draw();
    shown.ranking?.draw();
    desk.dataset.open = String(Boolean(page.state.open));
    shown.one.draw();
    shown.answer?.draw();
    shown.links?.draw();
    if (all) shown.draw();
  }
  /** What the model answered is shown. */
  function answered(): void {
    shown.model?.draw();
    shown.ranking?.draw();
    shown.one.answered();
  }
  function follow(): void {
    const { answers } = page;
    if (!answers || page.record !== page.first) return;
    void answers.follow(page.state);
    const { rank, answer } = page.state;
    const asked = JSON.stringify([rank, answer, answers.question({ ...page.state, changes: [] })]);
    if (!rank) answers.cancel();
    else if (asked !== ranking) void answers.rank(rank, answer, answers.question(page.state));
    ranking = rank ? asked : "";
  }
  let ranking = "";
  page.onChange((change) => {
    follow();
    page.cursor = undefined;
    draw("open" in change || "roles" in change || "side" in change);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  draw();
  follow();
  return page;
}

/** The sources of a record's tensors: of its own run, and of the other model. */
function sources(record: Heads) {
  const other = otherRecord(record);
  const [supply, more] = [0, 1].map(() => new HeadSource(record, undefined, record.rerun ? `&run=${record.rerun.run}` : ""));
  return other ? { supply, more, other, others: new HeadSource(other, undefined, "&of=side_by_side") } : { supply, more };
}

/** The panels of one record; they are built again for a rerun. */
function parts(page: HeadsPage) {
  const [overview, roles, one, table] = [mosaic(page), legend(page), detail(page), statistics(page)];
  const [model, ranking, links] = [modelPanel(page), rankingPanel(page), alignmentPanel(page)];
  const answer = model?.answers ? undefined : predictionPanel(page);
  const [which, pairs] = page.other ? [modelSwitch(page), pairTable(page)] : [];
  const picture = (kind: "svg" | "png") =>
    button(kind.toUpperCase(), `Save this picture as ${kind.toUpperCase()}`, () => save(overview.element, "equiscope-heads", kind), { class: "keep", "aria-label": `Save the overview as ${kind.toUpperCase()}` }); // prettier-ignore
  const whole = h(
    "section.part.overview",
    { "data-part": "overview" },
    h("div.head", h("h2", "All heads"), which?.element, h("div.buttons", picture("svg"), picture("png"))),
    h("p.quiet.counting", "Layers, heads and positions are counted from 0: L2H3 is layer 2, head 3."),
    roles.element,
    overview.element,
  );
  return {
    overview,
    one,
    answer,
    links,
    model,
    ranking,
    elements: [
      ...(answer ? [answer.element] : []),
      ...(links ? [links.element] : []),
      h("div.side", h("div.stack", model?.answers && model.element, whole)),
      one.element,
      h("div.below", ranking?.element, pairs?.element, table.element, model && !model.answers && model.element),
    ],
    draw() {
      roles.draw();
      overview.draw();
      which?.draw(page.state.side);
      pairs?.draw();
      table.draw();
    },
  };
}

const calm = (): ScrollBehavior => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

function header(record: Heads): HTMLElement {
  const { layers, sequences: lines, notes, parameters } = record;
  const count = layers.reduce((sum, { heads }) => sum + heads.length, 0);
  const facts: [string, string][] = [
    ["class", record.model],
    ["parameters", parameters.toLocaleString("en")],
    ["attention", `${layers.length} layers, ${count.toLocaleString("en")} heads`],
    [
      "input",
      lines
        .map(
          ({ labels, kind, name }) =>
            `${name ? `${name}: ` : ""}${labels.length.toLocaleString("en")} ${kind === "words" ? "tokens" : kind}`,
        )
        .join("; "),
    ],
    ["ran in", record.dtype],
    [
      "compared with",
      record.side_by_side ? `${record.side_by_side.model}, ${record.side_by_side.parameters.toLocaleString("en")} parameters` : "",
    ],
  ];
  return h(
    "header",
    navigation("heads"),
    h("h1", { "data-part": "title" }, `Attention heads of ${record.title}`),
    h("p.lede", { "data-part": "summary" }, record.summary),
    h("dl.facts", { "data-part": "facts" }, facts.map(([name, text]) => text && h("div", h("dt", name), h("dd", text)))), // prettier-ignore
    notes.length === 1 && h("p.notes.quiet", { "data-part": "notes" }, notes[0]),
    notes.length > 1 && h("details.notes", { "data-part": "notes" }, h("summary", `${notes.length} notes`), h("ul", notes.map((note) => h("li", note)))), // prettier-ignore
  );
}

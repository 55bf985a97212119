// The page of an answer: tokens beside their measured removal, the logit lens of the layers, the logit as a sum of parts. A served page
// asks the command for other answers; a file names the command.
import type { Attribution } from "../../core/contract";
import { button, h, select } from "../../core/dom";
import { number } from "../../core/format";
import { visible } from "../../core/labels";
import { LatestRequest } from "../../core/latest_request";
import { download } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { layers } from "./layers";
import { parts } from "./parts";
import { type AttributionState, stateOf, tokensAfter } from "./state";
import { tokens } from "./tokens";
import "./attribution.css";

/** The interface of the page for scripts. */
export interface AttributionPage extends Store<AttributionState> {
  record: Attribution; // of the answer that is shown
}

/** A section that follows the state. */
export interface Section {
  element: HTMLElement;
  draw(): void;
}

export function mount(first: Attribution, root: HTMLElement): AttributionPage {
  const page: AttributionPage = Object.assign(new Store(stateOf(first)), { record: first });
  const request = new LatestRequest();
  const known = new Map<string, Attribution>([[address({ after: undefined, answer: undefined }), first]]);
  const main = h("main", { id: "story" });
  const head = h("div");
  const status = h("p.quiet", { role: "status" });
  let sections: Section[] = [];

  function build(): void {
    sections = [tokens(page), layers(page.record), parts(page)];
    head.replaceChildren(heading(page));
    main.replaceChildren(...sections.map(({ element }) => element));
  }

  /** The record of the answer that the state names, from the command where it is not known. */
  async function follow(): Promise<void> {
    const wanted = address(page.state);
    let record = known.get(wanted);
    if (!record && first.served) {
      status.textContent = "The command computes this answer …";
      try {
        record = await request.get<Attribution>(wanted);
        if (record) known.set(wanted, record);
      } catch (error) {
        status.textContent = error instanceof Error ? error.message : String(error);
        return;
      }
    }
    if (!record || address(page.state) !== wanted) return;
    status.textContent = "";
    if (record === page.record) return;
    const focused = (document.activeElement as HTMLElement | null)?.dataset.ask;
    page.record = record;
    build();
    draw();
    if (focused) head.querySelector<HTMLElement>(`[data-ask="${focused}"]`)?.focus();
  }

  const draw = () => sections.forEach((section) => section.draw());
  document.body.classList.add("attributed");
  root.replaceChildren(h("header", navigation("attribution"), head, status), main, h("footer", footnote(first)));
  build();
  page.onChange(() => {
    draw();
    void follow();
  });
  draw();
  void follow();
  return page;
}

const footnote = ({ served }: Attribution): string =>
  served
    ? "equiscope: the command on this machine computed every number on this page."
    : "equiscope: every number on this page is in the record inside it. It works offline and sends nothing anywhere.";

const address = ({ after, answer }: Pick<AttributionState, "after" | "answer">): string =>
  `/attribution?token=${after ?? ""}&answer=${answer ?? ""}`;

function heading(page: AttributionPage): HTMLElement {
  const { record } = page;
  const save = () => download(new Blob([JSON.stringify(record)], { type: "application/json" }), "attribution.json");
  const facts: [string, string][] = [
    ["model", record.model],
    [record.metric, number(record.value, 3)],
    ["calls of the model", String(record.calls ?? 0)],
  ];
  return h(
    "div",
    h(
      "div.top",
      h("h1", { "data-part": "title" }, `What decides the answer: ${record.title}`),
      h("div.buttons", button("Download record", "Save the whole record as attribution.json", save)),
    ),
    h("p.lede", { "data-part": "answer" }, answered(record)),
    asked(page),
    h("dl.facts", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))), // prettier-ignore
    (record.notes ?? []).map((note) => h("p.notice", note)),
  );
}

function answered(record: Attribution): (HTMLElement | string)[] {
  const { answer, probability, read, sequence, answers, tokens: removed } = record;
  if (!answer) return [`What decides ${record.metric}, which is ${number(record.value, 3)} here?`];
  const sure = probability === null || probability === undefined ? "" : `, with probability ${number(probability, 3)}`;
  const where = read.length === 1 && removed.length ? [", read at token ", String(read[0]), " (“", h("bdi", visible((answers ?? sequence).labels[read[0]], read[0])), "”)"] : []; // prettier-ignore
  return ["The answer is “", h("b", h("bdi", visible(answer, 0))), `”${sure}`, ...where, ". What decides it?"];
}

/** Other answers, and other tokens after which one is read. A file says which there are. */
function asked(page: AttributionPage): HTMLElement | false {
  const { record, state } = page;
  const candidates = record.candidates ?? [];
  if (candidates.length < 2) return false;
  if (!record.served) {
    const rest = candidates.filter(({ index }) => index !== record.chosen).map(({ name, probability }) => `“${visible(name, 0)}” ${number(probability, 3)}`); // prettier-ignore
    return h("p.quiet", `Other answers: ${rest.join(", ")}. This file does not contain the model; the same command without --export explains them too.`); // prettier-ignore
  }
  const labels = tokensAfter(record);
  const after = select(
    "after token",
    labels.map((label, i) => ({ name: String(i), title: `${i} ${visible(label, i)}` })),
    String(state.after ?? record.read[0] ?? 0),
    (value) => page.set({ after: Number(value), answer: undefined, token: undefined }),
  );
  after.querySelector("select")?.setAttribute("data-ask", "after");
  return h(
    "div.asked",
    labels.length > 1 && after,
    h(
      "div.buttons",
      { role: "group", "aria-label": "Explain another answer" },
      candidates.map(
        (one) =>
        button(`${visible(one.name, 0)} ${number(one.probability, 3)}`, `Explain the answer “${visible(one.name, 0)}”`, () => page.set({ answer: one.index }), { "aria-pressed": String(one.index === record.chosen), "data-ask": one.index }), // prettier-ignore
      ),
    ),
  );
}

// The page of an answer: tokens beside their measured removal, the logit lens of the layers, the logit as a sum of parts.
import type { Attribution } from "../../core/contract";
import { button, h } from "../../core/dom";
import { number } from "../../core/format";
import { visible } from "../../core/labels";
import { download } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { layers } from "./layers";
import { parts } from "./parts";
import { type AttributionState, stateOf } from "./state";
import { tokens } from "./tokens";
import "./attribution.css";

/** The interface of the page for scripts. */
export interface AttributionPage extends Store<AttributionState> {
  record: Attribution;
}

/** A section that follows the state. */
export interface Section {
  element: HTMLElement;
  draw(): void;
}

export function mount(record: Attribution, root: HTMLElement): AttributionPage {
  const page: AttributionPage = Object.assign(new Store(stateOf(record)), { record });
  const sections = [tokens(page), layers(record), parts(page)];
  document.body.classList.add("attributed");
  root.replaceChildren(
    header(record),
    h("main", { id: "story" }, sections.map(({ element }) => element)), // prettier-ignore
    h("footer", "equiscope: every number on this page is in the record inside it. It works offline and sends nothing anywhere."),
  );
  const draw = () => sections.forEach((section) => section.draw());
  page.onChange(draw);
  draw();
  return page;
}

function header(record: Attribution): HTMLElement {
  const save = () => download(new Blob([JSON.stringify(record)], { type: "application/json" }), "attribution.json");
  const facts: [string, string][] = [
    ["model", record.model],
    [record.metric, number(record.value, 3)],
    ["calls of the model", String(record.calls ?? 0)],
  ];
  return h(
    "header",
    navigation("attribution"),
    h(
      "div.top",
      h("h1", { "data-part": "title" }, record.title),
      h("div.buttons", button("Download record", "Save the whole record as attribution.json", save)),
    ),
    h("p.lede", { "data-part": "answer" }, answered(record)),
    h("dl.facts", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))), // prettier-ignore
    (record.notes ?? []).map((note) => h("p.notice", note)),
  );
}

function answered({ answer, probability, read, sequence, answers, tokens: removed }: Attribution): (HTMLElement | string)[] {
  const sure = probability === null || probability === undefined ? "" : `, with probability ${number(probability, 3)}`;
  const where = read.length === 1 && removed.length ? [", read at token ", String(read[0]), " (“", h("bdi", visible((answers ?? sequence).labels[read[0]], read[0])), "”)"] : []; // prettier-ignore
  return ["The answer is “", h("b", h("bdi", visible(answer, 0))), `”${sure}`, ...where, ". What decides it?"];
}

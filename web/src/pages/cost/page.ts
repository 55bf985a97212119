// The page of cost: sizes first, then where the multiply-adds go, cost against length, memory, time.
import { saving } from "../../charts/section";
import type { Cost } from "../../core/contract";
import { asPart, button, h } from "../../core/dom";
import { copied, download } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { stacked } from "./bars";
import { all, brief, percent, total, whole } from "./formula";
import { againstLength } from "./length";
import { timings } from "./timings";
import { memory, generation } from "./memory";
import { copied as columns, parts } from "./parts";
import { modelName, sizes } from "./sizes";
import { chosen, type CostState, preset, stateOf } from "./state";
import "./cost.css";

/** The interface of the page for scripts. */
export interface CostPage extends Store<CostState> {
  cost: Cost;
}

export function mount(cost: Cost, root: HTMLElement): CostPage {
  const page: CostPage = Object.assign(new Store(stateOf(cost)), { cost });
  const answer = h("p.lede", { "aria-live": "polite", "data-part": "summary" });
  const note = h("p.notice", { "data-part": "summary" });
  const [bars, table] = [stacked(page), parts(page)];
  const pieces = [sizes(page), bars, table, againstLength(page), generation(page), memory(page), ...(cost.speeds ? [timings(page, cost.speeds)] : [])]; // prettier-ignore
  const [choice, , , ...others] = pieces;
  const title = "Where the multiply-adds go";
  const where = h(
    "section.part.where",
    { "data-part": "breakdown" },
    h("div.head", h("h2", title), saving(() => bars.picture, "equiscope-cost-parts", title)), // prettier-ignore
    asPart("bars", bars.element),
    asPart("table", table.element),
    h("details.notes", { "data-part": "counted" }, h("summary", "What is counted, and what is not"), h("ul", (cost.notes ?? []).map((one) => h("li", one)))), // prettier-ignore
  );
  const draw = () => {
    answer.textContent = costSummary(page);
    note.textContent = lengthWarning(page);
    note.hidden = !note.textContent;
    pieces.forEach((piece) => piece.draw());
  };
  document.body.classList.add("cost");
  root.replaceChildren(
    h("header", navigation("cost"), top(page), answer, note),
    h("main", { id: "story" }, choice.element, where, others.map(({ element }) => element)), // prettier-ignore
    h("footer", { "data-part": "footer" }, "equiscope: every number on this page follows from the formulas inside it, or was measured when the page was made. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  page.onChange(draw);
  draw();
  return page;
}

function top(page: CostPage): HTMLElement {
  const status = h("span.quiet", { role: "status" });
  const copy = (text: () => string) => async () => {
    status.textContent = (await copied(text())) ? "Copied." : "This browser does not allow a file to copy: save it instead.";
  };
  const csv = () => columns(page).replaceAll(",", "").replaceAll("\t", ",").replaceAll("\n", "\r\n");
  return h(
    "div.top",
    h("h1", { "data-part": "title" }, "What a transformer costs"),
    h(
      "div.buttons",
      { "data-part": "tools" },
      status,
      button("Copy table", "Copy every part as a table for a spreadsheet", copy(() => columns(page))), // prettier-ignore
      button("CSV", "Save every part as equiscope-cost.csv", () => download(new Blob([csv()], { type: "text/csv" }), "equiscope-cost.csv"), { "aria-label": "Save as CSV" }), // prettier-ignore
      button("Copy link", "Copy the address with the chosen sizes", copy(() => location.href)), // prettier-ignore
    ),
  );
}

/** The cost of a pass in one sentence. */
export function costSummary(page: CostPage): string {
  const model = chosen(page.cost, page.state);
  const sum = all(page.cost, "full_pass", model);
  const group = (name: string) =>
    page.cost.parts.reduce(
      (so, work) => (work.group === name && work.counted !== false ? so + total(work, "full_pass", model) : so),
      0n,
    );
  const { N, B } = model.sizes;
  const many = B > 1 ? `${whole(B)} sequences of ${whole(N)} tokens` : `${whole(N)} ${N === 1 ? "token" : "tokens"}`;
  const shares = [["attention takes", group("attention")], ["the feed-forward", group("feed-forward")], ["embedding and output layer", group("ends")]] as const; // prettier-ignore
  return `${modelName(page)} on ${many}: ${brief(sum)} multiply-adds a pass and ${brief(all(page.cost, "parameters", model))} parameters. Of the multiply-adds ${shares.map(([name, value]) => `${name} ${percent(value, sum)}`).join(", ")}.`; // prettier-ignore
}

/** A warning where the table of positions is too short. */
function lengthWarning({ cost, state }: CostPage): string {
  const { title } = preset(cost, state.model);
  const { N, T, E } = state.sizes;
  const most = T + (state.sizes.P ? E : 0);
  return T && N > most ? `${title} has ${whole(most)} learned positions: it would need a longer table for ${whole(N)} tokens. The parameters below are those of its own table.` : ""; // prettier-ignore
}

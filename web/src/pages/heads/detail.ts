// One head: its tokens, tinted by the weights of the chosen query or key; the map of all weights; the number in the chosen cell.
import type { Heads, AttentionLayer, TokenSequence } from "../../core/contract";
import { asPart, button, h } from "../../core/dom";
import { save } from "../../core/save";
import { hasCounterpart, type Side, shownSide, modelSwitch } from "./side_by_side";
import { cell as number } from "./cell";
import { interventionControls, interventionsOf } from "./changes";
import { named, spoken } from "../../core/labels";
import { lineView, type LineView, type Shown } from "./lines";
import { attentionMap } from "./attention_map";
import { modelActions } from "./model_actions";
import { headName } from "./mosaic";
import type { HeadsPage } from "./page";
import { badge, figures } from "./roles";
import { percent, formatWeight } from "./rounded";
import { isRollout } from "./rollout";
import type { HeadsState } from "./state";
import { strip } from "./layer_strip";
import { Attention, largest, most, NONE } from "./weights";

const MOST = 7; // tokens in the ranking
const HEAVY = 2e7; // products of a whole map, above which a column waits until every row is computed

/** What is on screen of a head: its tokens, its weights after interventions, and those of the model. */
export interface View {
  layer: number;
  head: number;
  found: AttentionLayer;
  asks: TokenSequence;
  answers: TokenSequence;
  same: boolean; // self-attention: queries and keys are the same tokens
  now: Attention;
  before: Attention;
  signed: boolean; // the difference is shown
  against?: Against; // the same head of the other model
  links?: number[]; // the column with a ring, for each row
  models?: [string, string]; // the names behind `now` and `before`, where the difference is between two models
}

/** The same head of the other model: its name, its weights, and its view. */
interface Against {
  name: string;
  attention: Attention;
  view?: View; // undefined where the difference is drawn
}

export function detail(page: HeadsPage): { element: HTMLElement; draw(): void; hover(): void; answered(): void } {
  const { record, supply } = page;
  const heading = h("div.heading");
  const trouble = h("p.notice", { role: "status", hidden: true });
  const lines = h("div.lines");
  const summary = h("output.summary", { "aria-live": "polite" });
  const ranking = h("ol.most");
  const map = attentionMap({
    point: (cell) => page.point(cell && { row: cell[0], column: cell[1] }),
    pick: ([row, column]) => page.set({ row, column }),
    done: () => view && (page.cursor ? hover() : show()),
  });
  const second = attentionMap({
    point: (cell) => page.point(cell && { row: cell[0], column: cell[1] }),
    pick: ([row, column]) => page.set({ row, column }),
    done: () => undefined,
  });
  const [firstName, secondName] = [h("h3.model-name"), h("h3.model-name")];
  const which = page.other && modelSwitch(page);
  const one = number(page);
  const change = interventionControls(page);
  const acts = record.served && record.interventions ? modelActions(page) : undefined;
  const by = segmentedControl("direction", [["query", "attends to", "Tint the tokens that the chosen token attends to"], ["key", "attended by", "Tint the tokens that attend to the chosen token"]], (value) => turn(value as HeadsState["by"])); // prettier-ignore
  const every = strip(page);
  const seeing = h(
    "div.seeing",
    { "data-part": "reading" },
    h("div.choices", which?.element, by.element),
    summary,
    lines,
    ranking,
    acts?.element,
    every.element,
  );
  const saved = (kind: "svg" | "png") => {
    const name = () => `equiscope-${headName(record, view!.layer, view!.head).replace(/[^\w]+/g, "-")}`;
    return button(kind.toUpperCase(), `Save the map as ${kind.toUpperCase()}`, () => view && save(map.element, name(), kind), { class: "keep", "aria-label": `Save the map as ${kind.toUpperCase()}` }); // prettier-ignore
  };
  const body = h(
    "div.body-of-head",
    asPart("changes", change.element),
    seeing,
    h("div.side-by-side", { "data-part": "matrix" }, h("div", page.other && firstName, map.element, h("div.buttons", saved("svg"), saved("png")), page.other && h("div.second", secondName, second.element)), one.element), // prettier-ignore
  );
  const element = h(
    "section.part.detail",
    { "data-part": "detail", "aria-label": "one head", tabindex: -1 },
    heading,
    trouble,
    body,
  );

  let view: View | undefined;
  let plain: Attention | undefined; // of the model, without interventions; it keeps the sums that it has computed
  let [key, waiting, drawnLines] = ["", "", ""];
  let [asking, answering]: [LineView | undefined, LineView | undefined] = [undefined, undefined];
  let cell: [number, number] = [0, 0];

  /** The other direction: the chosen token stays chosen. */
  function turn(value: HeadsState["by"]): void {
    if (value === page.state.by || !view) return;
    const [row, column] = cell;
    if (!view.same) page.set({ by: value });
    else page.set(value === "key" ? { by: value, column: row, row: undefined } : { by: value, row: column, column: undefined });
  }

  function draw(): void {
    const { open } = page.state;
    element.hidden = !open;
    if (!open) {
      view = undefined;
      key = "";
      return;
    }
    const [layer, head] = open;
    const side = shownSide(page, layer);
    const both = hasCounterpart(record, layer);
    const shownOf = side === "this" ? record : page.other!;
    const found = shownOf.layers[layer];
    document.body.dataset.role = found.heads[head].role;
    const shows = [...open, side].join();
    if (heading.dataset.head !== shows) {
      const pressed = heading.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
      heading.dataset.head = shows;
      heading.replaceChildren(...top(page, shownOf, layer, head));
      if (pressed) heading.querySelector<HTMLElement>(`[data-key="${pressed}"]`)?.focus({ preventScroll: true });
    }
    const [mine, theirs] = [supply.ready(layer, head), both ? page.others!.ready(layer, head) : undefined];
    const [given, against] = side === "this" ? [mine, theirs] : [theirs, mine];
    body.hidden = !given || (both && !against);
    if (!given || (both && !against)) {
      view = undefined;
      key = "";
      return wait(layer, head);
    }
    trouble.hidden = true;
    waiting = "";
    const line = found.key_sequence;
    const apart = side === "difference";
    const changed = apart
      ? NONE
      : { ...interventionsOf(page.state, layer, head, line), ...(side === "other" ? { edits: [] } : {}) };
    const signed = page.state.show === "change";
    const next = JSON.stringify([layer, head, changed, signed, side]);
    if (next !== key) {
      key = next;
      if (plain?.given !== given) plain = new Attention(given, NONE);
      const tried = new Attention(given, changed);
      const other = against && new Attention(against, NONE);
      const [now, before] = [tried.changed ? tried : plain, apart ? other! : plain];
      view = { layer, head, found, asks: record.sequences[found.query_sequence], answers: record.sequences[line], same: found.query_sequence === line && !found.cross, now, before, signed: apart || (signed && now.changed) }; // prettier-ignore
      if (other) put(view, other, side);
    }
    change.element.hidden = apart || isRollout(record, layer);
    firstName.hidden = !view?.against;
    if (page.other) secondName.parentElement!.hidden = !view?.against?.view;
    show();
  }

  /** The same head of the other model, side by side. */
  function put(view: View, other: Attention, side: Side): void {
    const { names } = record.side_by_side!;
    const [mine, name] = side === "this" ? names : [names[1], names[0]];
    const apart = side === "difference";
    view.against = { name, attention: other, view: apart ? undefined : { ...view, now: other, before: other, signed: false } };
    view.models = apart ? [mine, name] : undefined;
    firstName.textContent = apart ? `${mine} − ${name}` : mine;
    secondName.textContent = name;
  }

  function wait(layer: number, head: number): void {
    trouble.hidden = false;
    if (!supply.has(layer)) {
      trouble.textContent = record.layers[layer].reason || "The record has no tensors of this head, only its thumbnail.";
      return;
    }
    if (waiting === `${layer}.${head}`) return;
    waiting = `${layer}.${head}`;
    trouble.textContent = "Loading the tensors of this head …";
    const others = hasCounterpart(record, layer) ? page.others : undefined;
    Promise.all([supply.get(layer, head), others?.get(layer, head)]).then(
      ([given, theirs]) => given && (theirs || !others) && page.state.open?.join() === [layer, head].join() && draw(),
      (error: Error) => {
        waiting = "";
        if (page.state.open?.join() === [layer, head].join()) trouble.textContent = error.message;
      },
    );
  }

  function show(): void {
    if (!view) return;
    setLines(view);
    by.draw(page.state.by);
    if (page.state.by === "key" && needsEveryRow(view.now)) {
      summary.textContent = "Computing every row once …";
      map.draw(view, ...cell);
      return;
    }
    cell = selectedCell(view, page.state);
    change.draw(view, cell[1]);
    map.draw(view, ...cell);
    if (view.against?.view) second.draw(view.against.view, ...cell);
    which?.draw(shownSide(page, view.layer));
    every.draw(view, cell[0]);
    answered();
    one.draw(view, ...cell);
    hover();
  }

  /** What follows the pointer: the tint, the ranking and one sentence. Computes one row or one column. */
  function hover(): void {
    if (!view) return;
    const { cursor } = page;
    const asks = page.state.by === "query";
    if (!asks && needsEveryRow(view.now)) return;
    const row = Math.min(cursor?.row ?? cell[0], view.now.given.rows - 1);
    const column = Math.min(cursor?.column ?? cell[1], view.now.given.columns - 1);
    const weights = asks ? view.now.row(row) : view.now.column(column);
    const before =
      view.before === view.now || (!asks && needsEveryRow(view.before))
        ? undefined
        : asks
          ? view.before.row(row)
          : view.before.column(column);
    const tint = view.signed && before ? weights.map((weight, i) => weight - before[i]) : weights;
    const hidden = page.state.hidden[view.found.key_sequence] ?? [];
    const other = cursor && (asks ? cursor.column : cursor.row) === undefined ? largest(weights) : asks ? column : row;
    const mine: Shown = { chosen: asks ? row : column, signed: view.signed, hidden: [] };
    const theirs: Shown = { other, weights: tint, signed: view.signed, hidden: asks ? hidden : [], closed: asks ? (m) => view!.now.hidden(row, m) !== "" : (n) => view!.now.hidden(n, column) !== "" }; // prettier-ignore
    if (view.same) asking!.draw({ ...mine, ...theirs, hidden });
    else {
      (asks ? asking : answering)!.draw(asks ? mine : { ...mine, hidden });
      (asks ? answering : asking)!.draw(theirs);
    }
    for (const one of view.against?.view ? [map, second] : [map]) one.mark(asks || cursor?.row !== undefined || !cursor ? (asks ? row : other) : undefined, asks ? other : column); // prettier-ignore
    tell(view, asks ? [row, other] : [other, column], weights[other], before?.[other]);
    rank(view, weights, asks, asks ? row : column, other);
  }

  function tell(
    { asks, answers, now, models, against }: View,
    [row, column]: [number, number],
    weight: number,
    before?: number,
  ): void {
    const why = now.hidden(row, column);
    summary.replaceChildren(
      named(asks, row),
      why ? " cannot attend to " : " attends to ",
      named(answers, column),
      why ? `: ${why}.` : ": ",
      ...(why ? [] : [h("b.value", formatWeight(weight, now.given.about))]),
      ...(models && !why ? [` in ${models[0]}`] : []),
      ...(before === undefined || models ? [] : [h("span.quiet", `, originally ${formatWeight(before, now.given.about)}`)]),
      ...(against && !why ? ["; ", h("b", formatWeight(against.attention.row(row)[column], against.attention.given.about)), ` in ${against.name}`] : []), // prettier-ignore
    );
  }

  /** The tokens with the largest weights: those attended to, or those that attend. */
  function rank({ asks: who, answers: whom, now }: View, weights: Float64Array, asks: boolean, at: number, other: number): void {
    const line = asks ? whom : who;
    const first = most(weights, MOST).filter((i) => weights[i] > 0);
    const largest = weights[first[0]] || 1;
    while (ranking.children.length > first.length) ranking.lastChild!.remove();
    first.forEach((i, place) => {
      let item = ranking.children[place] as HTMLElement | undefined;
      if (!item) {
        item = h("li", h("button", { type: "button" }, h("i"), h("span.name"), h("b")));
        const press = item.firstElementChild as HTMLButtonElement;
        press.addEventListener("click", () => {
          const chosen = Number(press.dataset.i);
          page.set(page.state.by === "query" ? { row: cell[0], column: chosen } : { row: chosen, column: cell[1] });
        });
        ranking.append(item);
      }
      const press = item.firstElementChild as HTMLButtonElement;
      press.dataset.i = String(i);
      press.setAttribute("aria-pressed", String(i === other));
      press.style.setProperty("--share", (weights[i] / largest).toFixed(3));
      press.children[1].replaceChildren(named(line, i));
      press.children[2].textContent = now.given.about ? formatWeight(weights[i], now.given.about) : weights[i].toFixed(4);
    });
    ranking.setAttribute(
      "aria-label",
      asks ? `tokens that ${spoken(who, at)} attends to most` : `tokens that attend most to ${spoken(whom, at)}`,
    );
  }

  function setLines({ found, asks, answers, same }: View): void {
    const wanted = [found.query_sequence, found.key_sequence, same].join();
    if (wanted === drawnLines) return;
    drawnLines = wanted;
    const state = () => page.state;
    const chooses = (mine: "row" | "column", other: "row" | "column", leads: boolean) => ({
      point: (place: number | undefined) => page.point(place === undefined ? undefined : leads ? { [mine]: place } : { [mine]: place, [other]: cell[mine === "row" ? 1 : 0] }), // prettier-ignore
      pick: (place: number) =>
        page.set(leads ? { [mine]: place, [other]: undefined } : { row: cell[0], column: cell[1], [mine]: place }),
    });
    const listen = (mine?: "row" | "column") => {
      const now = () => {
        const asking = state().by === "query";
        const lead = asking ? "row" : "column";
        const own = mine ?? lead;
        return chooses(own, own === "row" ? "column" : "row", own === lead);
      };
      return { point: (place: number | undefined) => now().point(place), pick: (place: number) => now().pick(place) };
    };
    if (same) {
      asking = answering = lineView(asks, asks.name || "tokens", listen());
      lines.replaceChildren(asking.element);
      return;
    }
    asking = lineView(asks, `${asks.name}, queries`, listen("row"));
    answering = lineView(answers, `${answers.name}, keys`, listen("column"));
    lines.replaceChildren(h("div", h("p.quiet.line-name", `queries: ${asks.name}`), asking.element), h("div", h("p.quiet.line-name", `keys: ${answers.name}`), answering.element)); // prettier-ignore
  }

  /** The actions on the model, and its answer. */
  function answered(): void {
    if (!acts || !view) return;
    acts.element.hidden = view.models !== undefined || shownSide(page, view.layer) !== "this" || isRollout(record, view.layer);
    if (!acts.element.hidden) acts.draw(view, ...cell);
  }

  return { element, draw, hover, answered };
}

/** Whether a column needs every row first, and that takes long. */
const needsEveryRow = (attention: Attention): boolean => {
  const { rows, columns, width } = attention.given;
  return rows * columns * width > HEAVY && !attention.summed;
};

/** The chosen cell. By default a query that may attend to many keys, and the key with the largest weight. */
export function selectedCell({ now, asks }: Pick<View, "now" | "asks">, { row, column, by }: HeadsState): [number, number] {
  const { rows, columns } = now.given;
  const within = (place: number, count: number) => Math.max(0, Math.min(place, count - 1));
  if (by === "key" && row === undefined) {
    const at = within(column ?? (asks.kind === "patches" ? 0 : columns >> 1), columns);
    return [largest(now.column(at)), at];
  }
  const at = within(row ?? (asks.kind === "patches" ? (asks.prefix_tokens ? 0 : rows >> 1) : rows - 1), rows);
  return [at, column === undefined ? largest(now.row(at)) : within(column, columns)];
}

function top(page: HeadsPage, record: Heads, layer: number, head: number): HTMLElement[] {
  const found = record.layers[layer];
  const { role } = found.heads[head];
  const step = (by: number) => {
    const all = record.layers.flatMap(({ heads }, l) => heads.map((_, i) => [l, i] as [number, number]));
    const at = all.findIndex(([l, i]) => l === layer && i === head);
    return all[at + by];
  };
  const go = (by: number, text: string, title: string) =>
    button(text, title, () => page.open(...step(by)), { disabled: !step(by), "aria-label": title, "data-key": title });
  const counted = figures(found.heads[head]);
  const about = found.tensors?.relative_error;
  const title = headName(record, layer, head);
  const far = page.record.side_by_side?.total_variation[layer]?.[head];
  const name = page.record.side_by_side?.names[record === page.record ? 0 : 1];
  return [
    h(
      "div.head",
      h("h2", title.charAt(0).toUpperCase() + title.slice(1)),
      badge(role),
      name !== undefined && h("span.quiet.model-name", `in ${name}`),
      h(
        "div.buttons",
        go(-1, "‹", "Previous head"),
        go(1, "›", "Next head"),
        button("Close", "Back to all heads", () => page.close()),
      ),
    ),
    h(
      "p.quiet.where",
      h("code", found.where),
      found.kv_heads !== found.heads.length &&
        ` · grouped queries: ${found.kv_heads} key/value heads for ${found.heads.length} query heads`,
      isRollout(page.record, layer) ? " · computed by the command in float64" : about ? ` · ran in ${record.dtype}; weights on this page have a relative error up to ${percent(about)}` : ` · ran in ${record.dtype}, recomputed here in float64`, // prettier-ignore
      found.reconstruction_error != null && h("span.rebuilt", { title: "Difference from the model's own output: max |A·V − output| / max |output|" }, ` · check against the model${about ? " before rounding" : ""}: max |A V − output| = ${found.reconstruction_error === 0 ? "0" : found.reconstruction_error.toExponential(1)} of the largest output`), // prettier-ignore
    ),
    ...(page.record.side_by_side && !isRollout(page.record, layer) ? [h("p.pair-distance", far === undefined ? `${page.record.side_by_side.names[1]} has no layer with the same rows and as many heads, so this one has no counterpart.` : `Distance of the two heads: ${far.toFixed(4)}. On average ${(100 * far).toPrecision(3)} % of a query's weight lies on other tokens.`)] : []), // prettier-ignore
    h(
      "p.quiet.counted",
      counted ? `Measured on this input: ${counted}.` : "",
      found.reason ? h("span.why", ` ${found.reason}`) : "",
    ),
  ];
}

/** A row of buttons, one of which is pressed. */
export function segmentedControl(label: string, options: [string, string, string][], choose: (value: string) => void) {
  const buttons = options.map(([value, title, about]) => h<HTMLButtonElement>("button", { type: "button", title: about, "data-value": value, onclick: () => choose(value) }, title)); // prettier-ignore
  const element = h("div.switch", { role: "group", "aria-label": label }, buttons);
  return {
    element,
    draw: (value: string) => buttons.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.value === value))),
  };
}

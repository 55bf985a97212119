// The model's answer, unchanged and after changes: the changes that act, each of which can be removed; a second input; plain torch.
import type { InterventionEffect, TokenSequence } from "../../core/contract";
import { button, h, select } from "../../core/dom";
import { digits } from "../../core/format";
import { brief, named, visible } from "../../core/labels";
import { copied } from "../../core/save";
import { arrows } from "./arrows";
import { changeWords } from "./model_change";
import type { HeadsPage } from "./page";
import { predictionsAt } from "./predictions";

const NONE = "none";
export const NEEDS_MODEL = "This file does not contain the model. Run the same command without --export: the served page can change the model and run it again."; // prettier-ignore

/** A probability or a cosine as the panel writes it. */
export const answerNumber = (value: number): string => (Math.abs(value) < 1e-3 && value !== 0 ? value.toExponential(1) : value.toFixed(4)); // prettier-ignore
const signed = (value: number): string => `${value < 0 ? "−" : "+"}${answerNumber(Math.abs(value))}`;

/** The row that changes most, as a sentence. */
export function effectSummary(effect: InterventionEffect): string {
  if (effect.largest === 0) return "No number of the output changes";
  const [one] = [...effect.rows].sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before));
  return one ? `${one.id < 0 ? one.name : `“${visible(one.name, 0)}”`}: ${answerNumber(one.before)} → ${answerNumber(one.after)} (${signed(one.after - one.before)})` : ""; // prettier-ignore
}

/** answers: whether it shows what the model answers, not only that it needs the model. */
export function modelPanel(page: HeadsPage): { element: HTMLElement; answers: boolean; draw(): void } | undefined {
  const { record, answers } = page;
  const found = record.interventions;
  if (!found || !answers) return undefined;
  if (!record.served && !answers.stored.length)
    return { element: section(h("h2", "Change the model"), h("p.quiet", NEEDS_MODEL)), answers: false, draw: () => undefined };
  const line = record.sequences[found.sequence];
  const picture = found.answer === "class" && isPicture(line) && h("img", { src: line.picture, alt: "the input picture" }); // prettier-ignore
  const after = h("p.answer-after");
  const table = h("div.scroll", { tabindex: 0, role: "region", "aria-label": "the model's answer" });
  const status = h("p.summary", { role: "status" });
  const list = h("ol.model-changes");
  const stored = h("div.buttons");
  const torch = h("div.plain-torch");
  const other = h("div.second-input");
  const beside = h("div.second-picture");
  const say = h("span.quiet", { role: "status" });
  const copy = async (text: string, what: string) => {
    say.textContent = (await copied(text)) ? `${what} copied.` : "The browser does not allow to copy here.";
  };
  const clear = button("Remove all", "Remove every change of the model", () => page.set({ changes: [] }));
  const link = button("Copy link", "Copy the address that brings all this back", () => copy(location.href, "Link"));
  const keep = record.served && h("a.press", { href: "/saved.html", download: "equiscope-heads.html", title: "Save the page as one offline file, with every answer computed so far" }, "Save as file"); // prettier-ignore
  const element = section(
    h("div.head", h("h2", record.side_by_side ? `The answer of ${record.side_by_side.names[0]}` : "The model's answer"), h("div.buttons", button("↶ Undo", "Undo the last step (Ctrl+Z)", () => page.undo()), button("↷ Redo", "Redo the step (Ctrl+Shift+Z)", () => page.redo()), clear, link, keep)), // prettier-ignore
    h("div.answered", picture, beside, h("div", after, table)),
    status,
    list,
    stored,
    say,
    other,
    torch,
  );
  let [drawnTorch, drawnOther] = ["", ""];

  function rows(): InterventionEffect["rows"] {
    const { effect } = answers!;
    if (effect) return effect.rows;
    if (!record.predictions) return [];
    return predictionsAt(record.predictions, page.state.after ?? answers!.last).map(([name, chance]) => ({ id: -2, name, before: chance, after: chance })); // prettier-ignore
  }

  /** A name; while heads are ranked, a press ranks them by it. */
  function name({ id, name: text }: InterventionEffect["rows"][number], i: number): HTMLElement {
    const label = h("bdi", id === -1 ? text : visible(text.replace(/^ (?=\S)/, ""), i));
    if (!page.state.rank || id < 0 || !record.served) return label;
    const mine = page.state.answer === undefined ? i === 0 : page.state.answer === id;
    return h("button", { type: "button", "data-answer": id, "aria-pressed": String(mine), title: "Rank heads by this answer", onclick: () => page.set({ answer: i ? id : undefined }) }, label); // prettier-ignore
  }

  function drawTable(): void {
    const { effect, busy } = answers!;
    const all = rows();
    const changed = Boolean(effect?.changes.length);
    const second = all.some((row) => row.second != null);
    const heads = [found!.answer === "next" ? "token" : found!.answer === "class" ? "class" : "", "before", ...(changed ? ["after", "difference"] : []), ...(second ? ["second"] : [])]; // prettier-ignore
    table.setAttribute("aria-busy", String(busy));
    const focused = (document.activeElement as HTMLElement | null)?.dataset.answer;
    table.replaceChildren(
      h(
        "table.answer",
        h("caption.spoken", "The model's answer"),
        h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
        h(
          "tbody",
          all.map((row, i) =>
            h(
              "tr",
              { "data-id": row.id },
              h("th", { scope: "row" }, name(row, i)),
              h("td", { title: digits(row.before), "data-value": row.before }, answerNumber(row.before)),
              changed && h("td", { title: digits(row.after), "data-value": row.after }, answerNumber(row.after)),
              changed && h("td.difference", { "data-sign": row.after < row.before ? "less" : "more" }, signed(row.after - row.before)), // prettier-ignore
              second && h("td", { title: digits(row.second) }, answerNumber(row.second ?? 0)),
            ),
          ),
        ),
      ),
    );
    if (focused) table.querySelector<HTMLElement>(`[data-answer="${focused}"]`)?.focus({ preventScroll: true });
  }

  function drawSecond(): void {
    const key = JSON.stringify([page.state.second, answers!.effect?.second?.sequence.labels ?? answers!.busy]);
    if (key === drawnOther) return;
    drawnOther = key;
    const { second } = page.state;
    const choose = (name: string) => page.set({ second: name, ...(name ? {} : { changes: page.state.changes.filter(({ action }) => action !== "patch") }) }); // prettier-ignore
    const focused = other.contains(document.activeElement);
    const input = h<HTMLInputElement>("input", { type: "text", value: second, "aria-label": "second input", spellcheck: "false", onchange: () => choose(input.value) }); // prettier-ignore
    const options = [{ name: NONE, title: NONE }, ...(found!.choices ?? []).map((name) => ({ name, title: name }))];
    const shown = answers!.effect?.second;
    other.replaceChildren(
      record.served && found!.second === "text"
        ? h("label.choice", h("span", "Second input"), input)
        : record.served && found!.second === "choice"
          ? select("Second input", options, second || NONE, (name) => choose(name === NONE ? "" : name))
          : "",
      ...(shown && !isPicture(shown.sequence) ? [pairs(page, line, shown.sequence)] : []),
      ...(shown?.no_patch ? [h("p.notice", shown.no_patch)] : []),
    );
    beside.replaceChildren(
      ...(shown && isPicture(shown.sequence) ? [h("img", { src: shown.sequence.picture, alt: "the second input picture" })] : []),
    );
    if (focused) other.querySelector<HTMLElement>("input, select")?.focus({ preventScroll: true });
  }

  function drawTorch(): void {
    const { effect } = answers!;
    const text = effect?.changes.length ? effect.code || effect.no_code || "" : "";
    if (text === drawnTorch) return;
    drawnTorch = text;
    const count = text.split("\n").filter((one) => one.trim()).length;
    torch.replaceChildren(
      ...(!text
        ? []
        : !effect!.code
          ? [h("p.quiet", text)]
          : [
              h("details", { open: torch.querySelector("details")?.open }, h("summary", `The same in plain torch: ${count} lines`), h("pre", { tabindex: 0 }, text), h("div.buttons", button("Copy", "Copy these lines", () => copy(text, "Lines")), button("Copy with model and inputs", "Copy these lines after those that make what they read", () => copy(`${effect!.setup}\n${text}`, "Lines")))), // prettier-ignore
            ]),
    );
  }

  return {
    element,
    answers: true,
    draw() {
      const { effect, busy, trouble } = answers!;
      const { changes } = page.state;
      after.replaceChildren(...(found.answer === "next" ? ["Probable next tokens after ", named(line, page.state.after ?? answers!.last), "."] : [found.answer === "class" ? "The probabilities of the classes." : "The output is compared as one vector, the mean where each token has one."])); // prettier-ignore
      drawTable();
      status.textContent = busy
        ? "The model runs …"
        : trouble || (effect?.changes.length ? `${effectSummary(effect)}. Largest change of a number of the output ${digits(Number(effect.largest.toPrecision(3)))}, cosine of the outputs ${effect.cosine.toFixed(5)}. Forward passes: ${effect.passes}.` : record.served ? "Nothing is changed. Open a head, then change it, an edge, a number or a token." : "Nothing is changed."); // prettier-ignore
      const focused = list.contains(document.activeElement);
      list.replaceChildren(
        ...changes.map((one, i) => {
          const words = changeWords(record, line, one);
          return h("li", h("span", words), button("×", `Remove: ${words}`, () => page.set({ changes: page.state.changes.filter((_, at) => at !== i) }), { "aria-label": `Remove: ${words}` })); // prettier-ignore
        }),
      );
      if (focused) (list.querySelector<HTMLElement>("button") ?? clear).focus({ preventScroll: true });
      clear.disabled = !changes.length;
      if (!record.served)
        stored.replaceChildren(h("span.quiet", "Stored answers: "), ...answers!.stored.filter((one) => one.changes.length).map((one) => button(one.changes.map((text) => words(text)).join("; ") , "Show this answer", () => page.set({ changes: one.changes.flatMap((text) => page.changeOf(text) ?? []), second: one.other, after: one.after === answers!.last ? undefined : one.after })))); // prettier-ignore
      drawSecond();
      drawTorch();
    },
  };

  function words(text: string): string {
    const change = page.changeOf(text);
    return change ? changeWords(record, line, change) : text;
  }
}

const section = (...content: (HTMLElement | string)[]): HTMLElement =>
  h("section.part.model-answer", { "data-part": "answer" }, content);

const isPicture = ({ picture }: TokenSequence): boolean => /^data:image\//.test(picture ?? "");

/** The tokens of both inputs, one above the other; a press chooses the token. */
function pairs(page: HeadsPage, line: TokenSequence, second: TokenSequence): HTMLElement {
  const count = Math.max(line.labels.length, second.labels.length);
  const element = h(
    "div.pairs",
    { role: "group", "aria-label": "tokens of both inputs: arrow keys move" },
    Array.from({ length: count }, (_, i) => {
      const [mine, theirs] = [line.labels[i], second.labels[i]];
      const label = (text: string | undefined) => h("bdi", text === undefined ? "–" : brief(text, i));
      return h("button", { type: "button", "data-differs": String(mine !== theirs), "data-i": i, tabindex: i ? -1 : 0, disabled: i >= line.labels.length, title: `Choose token ${i}`, onclick: () => page.set({ row: i, column: undefined, ...(page.state.open ? {} : { open: [0, 0] }) }) }, label(mine), label(theirs)); // prettier-ignore
    }),
  );
  arrows(element, 1);
  return element;
}

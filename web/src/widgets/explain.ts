// The line of arithmetic: how the number under the pointer is computed from its operands; and a field to edit it.
import type { Desk, Target } from "../core/desk";
import { button, h } from "../core/dom";
import { column, number, plain, symbol } from "../core/format";
import { editKey, letters, value } from "../core/names";
import { at } from "../core/tensor";

export function explainer(app: Desk): HTMLElement {
  const line = h("div.arithmetic");
  const note = h("div.note");
  const spoken = h("div.spoken", { "aria-live": "polite", role: "status" });
  const input = h<HTMLInputElement>("input", { type: "number", step: "any", "aria-label": "new number" });
  const done = button("set", "Keep this number", () => commit());
  const editor = h("form.editor", { hidden: true }, h("label", "change to ", input), done);
  const root = h("section.explain", { "aria-label": "How this number is computed" }, line, editor, note, spoken);
  let shown: Target | undefined;
  let editing = false;
  let timer = 0;

  editor.addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("input", () => shown && Math.abs(input.valueAsNumber) <= 1e6 && write(shown, input.valueAsNumber));
  input.addEventListener("focus", () => {
    if (!editing) app.begin();
    editing = true;
  });
  input.addEventListener("blur", () => (editing = false));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") commit();
    if (event.key === "Escape") {
      app.undo();
      editing = false;
      input.blur();
    }
  });
  document.addEventListener("edit-number", (event) => {
    if (editor.hidden) return;
    input.focus();
    const begin = (event as CustomEvent).detail?.begin;
    if (begin === undefined) input.select();
    else input.value = /\d/.test(begin) ? begin : "";
  });

  app.onPoint((target) => {
    if (editing && target && shown && target.id === shown.id && String(target.index) === String(shown.index)) show(target, false);
    else if (!editing) show(target, true);
  });
  show(undefined, false);
  return root;

  function show(target: Target | undefined, fill: boolean): void {
    shown = target;
    root.classList.toggle("idle", !target);
    editor.hidden = !target || !editKey(target.run, target.id);
    if (!target) {
      line.replaceChildren(
        "Point at any number with mouse, touch or arrow keys to see how it is computed. Underlined numbers can be edited.",
      );
      note.textContent = "";
      return;
    }
    try {
      describe(target);
    } catch (error) {
      line.replaceChildren(error instanceof Error ? error.message : String(error));
    }
    if (fill && !editor.hidden) input.value = String(at(target.run.program.get(target.id), target.index));
    clearTimeout(timer);
    timer = window.setTimeout(() => (spoken.textContent = `${line.textContent} ${note.textContent}`), 150);
  }

  function describe(target: Target): void {
    const { run, id, index } = target;
    const result = at(run.program.get(id), index);
    const operands = run.program.operands(id, index);
    const digits = app.state.digits;
    line.replaceChildren(name(app, target), " = ");
    note.textContent = "";
    if (!operands) {
      line.append(
        h("b.result", number(result, Math.max(digits, decimals(result)))),
        h("span.quiet", editKey(run, id) ? " input: edit it, and everything after it is recomputed" : " from the position"),
      );
      return;
    }
    const styles = new Map<string, (value: number) => string>(); // an operand is printed as in its matrix
    const write = (of: string) => styles.get(of) ?? styles.set(of, column(run.program.get(of).data, digits)).get(of)!;
    for (const term of operands.terms) {
      if ("text" in term) line.append(term.text);
      else
        line.append(
          h(
            "span.term",
            { title: plain(letters(run, term.id)) },
            (operands.terms.length > 1 ? brackets : String)(write(term.id)(at(run.program.get(term.id), term.index))),
          ),
        );
    }
    line.append(" = ", h("b.result", write(id)(result)));
    const set = index.join() in (app.state.edits[editKey(run, id) ?? ""] ?? {}); // a number of a step, which `Watched` allows to set
    note.textContent = [set && "set by hand", operands.note, unprinted(operands.more.length)].filter(Boolean).join("; ");
  }

  function write(target: Target, number: number): void {
    const key = editKey(target.run, target.id);
    if (!key) return;
    const cell = [...target.index];
    if (key === "words") cell[0] = target.run.source![cell[0]];
    const edits = { ...app.state.edits, [key]: { ...app.state.edits[key], [cell.join()]: number } };
    app.set({ edits }, { step: false });
  }

  function commit(): void {
    editing = false;
    input.blur();
    const focus = document.querySelector<HTMLElement>(".cell.target");
    focus?.focus();
  }
}

const decimals = (value: number): number => Math.min(8, (String(value).split(".")[1] ?? "").length);
const unprinted = (count: number): string =>
  count > 1
    ? `${count} more operands are highlighted but not printed`
    : count
      ? "one more operand is highlighted but not printed"
      : "";
const brackets = (text: string): string => (text.startsWith("−") ? `(${text})` : text);

/** Q[Love, 1]: the symbol, the word, the column; head and column are counted from 0. */
function name(app: Desk, { run, id, index, names: own }: Target): HTMLElement {
  const found = value(run, id);
  const tensor = run.program.get(id);
  const parts = index.map((i, axis) => {
    const names = found.axes[axis] === "token" && own ? own : app.names(found.axes[axis] ?? "", tensor.shape[axis]);
    return names?.[i]
      ? h("span.word", { "data-colour": names[i].colour }, names[i].text)
      : found.axes[axis] === "head"
        ? `H${i}`
        : String(i);
  });
  return h(
    "span.name",
    symbol(letters(run, id)),
    "[",
    parts.flatMap((part, i) => (i ? [", ", part] : [part])),
    "]",
  );
}

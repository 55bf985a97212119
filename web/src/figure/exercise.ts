// <equiscope-exercise figure="love" goal="uniform-attention">: predict, try in the figure, check, reveal.
//
// figure  the id of the figure in which it is tried
// goal    a goal of its page, which marks it on its own numbers; without one the prediction is marked
//
// Between its tags: text; <label><input type="radio"> …</label> for each prediction, the right one with data-right; elements with
// data-hint, shown one by one; one with data-answer, whose attribute `state` is merged over the first state of the figure.
// A script has `state`; a change by a person dispatches "equiscope-state", and reaching the goal "equiscope-solved".
import type { Marked } from "../core/goals";
import { Figure, make } from "./figure";
import { merged } from "./messages";

const STYLE = `
  :host { display: block; margin: 1.4em 0; padding: .2em 1.1em .9em; border: 1px solid color-mix(in srgb, currentColor 22%, transparent); border-left-width: 5px; border-radius: 9px; }
  ::slotted([data-hint])::before { content: "Hint: "; font-weight: 600; }
  ::slotted([data-answer])::before { content: "Answer: "; font-weight: 600; }
  ::slotted(fieldset) { border: 0; margin: .6em 0; padding: 0; min-width: 0; }
  .bar { display: flex; flex-wrap: wrap; gap: .5em; margin-top: .8em; }
  button { font: 600 14px/1.4 system-ui, sans-serif; color: inherit; background: none; border: 1px solid color-mix(in srgb, currentColor 45%, transparent); border-radius: 8px; padding: .35em .9em; min-height: 36px; cursor: pointer; }
  button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
  p { margin: .7em 0 0; }
  .right b { color: color-mix(in srgb, #0a8a45 62%, currentColor); }
  .wrong b { color: color-mix(in srgb, #d3301f 66%, currentColor); }
  @media print { .bar { display: none; } }`;
const PREDICT_FIRST = "Predict first: choose one of the answers.";

let count = 0;

export class Exercise extends HTMLElement {
  private readonly bar = make("div", "bar");
  private readonly status = make("div");
  private readonly hint = button("Hint", () => this.showHint());
  private readonly answer = button("Reveal", () => (this.revealed ? this.again() : this.reveal()));
  private readonly tried = ({ target }: Event) => target === this.figure && void this.mark(false);
  private wanted = ""; // a state that was set before the element was complete
  private isBuilt = false;
  private revealed = false;
  private solved = false;
  private hints = 0;
  private marks = 0;

  constructor() {
    super();
    this.status.setAttribute("role", "status");
    this.bar.append(button("Check", () => void this.mark(true)), this.hint, this.answer); // prettier-ignore
    this.attachShadow({ mode: "open" }).append(make("style", "", { textContent: STYLE }), make("slot"), this.bar, this.status);
  }

  connectedCallback(): void {
    document.addEventListener("equiscope-state", this.tried);
    if (document.readyState !== "loading") this.build();
    else addEventListener("DOMContentLoaded", () => this.build(), { once: true });
  }

  disconnectedCallback(): void {
    document.removeEventListener("equiscope-state", this.tried);
  }

  /** What was predicted, shown and solved, as fields: "predicted=1&hints=2&solved=1". */
  get state(): string {
    if (!this.isBuilt) return this.wanted;
    const fields = new URLSearchParams();
    if (this.predicted >= 0) fields.set("predicted", String(this.predicted));
    if (this.hints) fields.set("hints", String(this.hints));
    for (const name of ["solved", "revealed"] as const) if (this[name]) fields.set(name, "1");
    return fields.toString();
  }

  set state(text: string) {
    this.wanted = text;
    if (!this.isBuilt) return;
    const fields = new URLSearchParams(text);
    this.radios.forEach((radio, i) => (radio.checked = fields.get("predicted") === String(i)));
    this.hints = Math.min(Number(fields.get("hints")) || 0, this.allHints.length);
    [this.solved, this.revealed] = [fields.has("solved"), fields.has("revealed")];
    this.say(this.solved ? "right" : "", this.solved ? ["✓ Solved.", this.ofPrediction()] : []);
    this.draw();
  }

  private get figure(): Figure | undefined {
    const found = document.getElementById(this.getAttribute("figure") ?? "");
    return found instanceof Figure ? found : undefined;
  }

  private get radios(): HTMLInputElement[] {
    return [...this.querySelectorAll<HTMLInputElement>("input[type=radio]")];
  }

  private get predicted(): number {
    return this.radios.findIndex((radio) => radio.checked);
  }

  private get allHints(): HTMLElement[] {
    return [...this.querySelectorAll<HTMLElement>("[data-hint]")];
  }

  private build(): void {
    if (this.isBuilt) return;
    this.isBuilt = true;
    const name = `equiscope-exercise-${++count}`;
    const labels = this.radios.map((radio) => radio.closest("label") ?? radio);
    for (const label of labels) label.style.display = "block";
    if (labels.length) {
      const group = make("fieldset");
      labels[0].before(group);
      group.append(make("legend", "", { textContent: "Your prediction" }), ...labels);
    }
    for (const radio of this.radios) {
      radio.name = name;
      radio.addEventListener("change", () => {
        this.tell();
        void this.mark(false);
      });
    }
    this.state = this.wanted;
  }

  /** Marks what the figure shows. pressed: by "Check"; else only what is right is said. */
  private async mark(pressed: boolean): Promise<void> {
    const turn = ++this.marks;
    if (this.radios.length && this.predicted < 0 && !this.revealed) {
      if (pressed) this.say("", [PREDICT_FIRST]);
      return;
    }
    if (!pressed && !this.getAttribute("goal")) return this.say("", []);
    let found: Marked;
    try {
      found = await this.ask();
    } catch (error) {
      return this.say("wrong", ["✗ Not marked.", (error as Error).message]);
    }
    if (turn !== this.marks) return; // a later change is being marked
    if (found.right) {
      this.say("right", [this.revealed ? "✓ Shown." : "✓ Right.", found.says, this.ofPrediction()]);
      if (this.solved || this.revealed) return;
      this.solved = true;
      this.tell();
      this.dispatchEvent(new CustomEvent("equiscope-solved", { bubbles: true, composed: true, detail: { state: this.state } }));
    } else if (pressed || this.status.className === "right") this.say("wrong", ["✗ Not yet.", found.says]);
  }

  private async ask(): Promise<Marked> {
    const goal = this.getAttribute("goal");
    if (!goal) return { right: !!this.radios[this.predicted]?.hasAttribute("data-right"), says: "" };
    if (!this.figure) throw new Error(`There is no figure with the id “${this.getAttribute("figure")}” here.`);
    return this.figure.ask(goal);
  }

  /** Whether the prediction was right. */
  private ofPrediction(): string {
    const right = this.radios.find((radio) => radio.hasAttribute("data-right"));
    if (!right || this.predicted < 0 || !this.getAttribute("goal")) return "";
    return right.checked
      ? "Your prediction was right."
      : `The right prediction was “${right.closest("label")?.textContent?.trim()}”.`;
  }

  private showHint(): void {
    this.hints++;
    this.say("", [`Hint ${this.hints} of ${this.allHints.length} is shown above.`]);
    this.tell();
  }

  private reveal(): void {
    const state = this.querySelector("[data-answer]")?.getAttribute("state");
    this.revealed = true;
    this.say("", ["The answer is shown above.", this.ofPrediction()]);
    this.tell();
    if (this.figure && state != null) this.figure.state = merged(this.figure.first, state); // which is marked as "shown"
  }

  private again(): void {
    this.state = "";
    this.figure?.reset();
    this.tell();
  }

  private tell(): void {
    this.draw();
    this.dispatchEvent(new CustomEvent("equiscope-state", { bubbles: true, composed: true, detail: { state: this.state } }));
  }

  private draw(): void {
    const answer = this.querySelector<HTMLElement>("[data-answer]");
    this.allHints.forEach((hint, i) => (hint.hidden = i >= this.hints));
    this.hint.hidden = this.hints >= this.allHints.length;
    this.answer.hidden = !answer;
    if (answer) answer.hidden = !this.revealed;
    this.answer.textContent = this.revealed ? "Try again" : "Reveal";
  }

  private say(kind: "right" | "wrong" | "", words: string[]): void {
    const [first, ...rest] = words.filter(Boolean);
    const line = make("p");
    if (first) line.append(kind ? make("b", "", { textContent: first }) : first, ` ${rest.join(" ")}`);
    this.status.className = kind;
    this.status.replaceChildren(...(first ? [line] : []));
  }
}

function button(text: string, press: () => void): HTMLButtonElement {
  const made = make("button", "", { type: "button", textContent: text });
  made.addEventListener("click", press);
  return made;
}

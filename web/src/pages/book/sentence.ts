// Your own words. The text speaks of the words of the book; figures of a sentence begin with yours, unless the text's state of that
// figure is about its own words: their order, a number that it points at, or numbers that it changes.
import { h } from "../../core/dom";
import { merged } from "../../figure/messages";
import { actsOn } from "./address";
import type { Shell } from "./page";

const PAGE = "figures/sentence.html";
const ABOUT = ["words", "order", "edits", "point"]; // fields of a state that hold for certain words only

export class Sentence {
  /** own: the words that the reader gave; of the text: what it speaks of. */
  constructor(
    readonly own: string[],
    private readonly text: string[],
  ) {}

  /** Whether a change of a figure's state is about the words of the text. */
  static about(state: string): boolean {
    const parts = new URLSearchParams(state);
    return ABOUT.some((name) => parts.get(name));
  }

  /** The state of a figure with the words of the text. */
  texts(state: string): string {
    return merged(state, new URLSearchParams({ words: JSON.stringify(this.text) }).toString());
  }

  /** What the text says in its markup, before the figures read it. */
  prepare(root: HTMLElement): void {
    const figures = root.querySelectorAll(`equiscope-figure[src="${PAGE}"]`);
    for (const figure of figures) {
      const states = [figure, ...root.querySelectorAll(`equiscope-exercise[figure="${figure.id}"] [data-answer]`)];
      for (const one of states) {
        const state = one.getAttribute("state") ?? "";
        if (Sentence.about(state)) one.setAttribute("state", this.texts(state));
      }
    }
    for (const link of root.querySelectorAll<HTMLAnchorElement>('a[href^="#"][href*="?"]')) {
      const [id, change] = [actsOn(link.getAttribute("href")!), link.hash.replace(/^[^?]*\?/, "")];
      const isSentence = [...figures].some((figure) => figure.id === id);
      if (isSentence && Sentence.about(change)) link.href = `#${id}?${this.texts(change)}`;
    }
  }

  /** A line above each figure of a sentence: whose words it shows, and a button for the others. */
  lines(root: HTMLElement, shell: Shell): void {
    for (const figure of root.querySelectorAll<HTMLElement>(`equiscope-figure[src="${PAGE}"]`)) {
      const [name, other] = [h("span"), h<HTMLButtonElement>("button", { type: "button" })];
      other.addEventListener("click", () => {
        const state = shell.state(figure.id);
        const cleared = merged(state, "words=&order=&edits=&point=");
        shell.show(figure.id, this.ofText(state) ? cleared : this.texts(cleared));
      });
      const look = () => {
        const texts = this.ofText(shell.state(figure.id));
        name.textContent = texts
          ? "This figure shows the words of the text. "
          : `This figure shows your words. The text speaks of “${this.text.join(" ")}”. `;
        other.textContent = `Show “${short(texts ? this.own : this.text)}”`;
      };
      shell.watch(figure.id, look);
      look();
      figure.before(h("p.whose", { role: "status" }, name, other));
    }
  }

  private ofText(state: string): boolean {
    return new URLSearchParams(state).get("words") === JSON.stringify(this.text);
  }
}

const short = (words: string[]): string => (words.length > 8 ? `${words.slice(0, 8).join(" ")} …` : words.join(" "));

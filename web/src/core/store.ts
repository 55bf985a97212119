// A store: the state of a page, what undo takes back, and the link in the address, to which the browser's Back returns. In a frame
// without an address the state lives here alone.
import type { Schema, Steps } from "./state";

const KEPT = 200; // steps that can be undone
const WRITING = "textarea, input:not([type=range], [type=checkbox], [type=radio])"; // elements with an undo of their own
const [MANY, DURING, LATER] = [20, 10_000, 400]; // so many addresses in so many milliseconds; further ones are written later

/** The link in the address. In a frame it is kept in memory: a page there may have no address and no history. */
export const fragment = (): string => document.documentElement.dataset.link ?? location.hash.slice(1);

export class Store<S extends object> {
  state: S;
  private past: S[] = [];
  private future: S[] = [];
  private begun = false;
  private waiting = 0;
  private times: number[] = [];
  private readonly listeners: { call(change: Partial<S>): void }[] = [];

  constructor(readonly schema: Schema<S>) {
    this.state = schema.read(fragment());
    addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || (event.target as Element).matches(WRITING))
        return;
      event.preventDefault();
      if (event.shiftKey) this.redo();
      else this.undo();
    });
  }

  /** The link of the page as it is. */
  link(): string {
    return this.schema.write(this.state);
  }

  /** Call a listener after each change, with the fields that may differ. */
  onChange(listener: (change: Partial<S>) => void): void {
    this.listeners.push({ call: listener });
  }

  /** Change some fields. step: false for what continues a movement, such as that of a slider, which is one step. */
  set(change: Partial<S>, { step = true } = {}): void {
    const how = step ? this.kindOf(change) : "none";
    if (how === "undo") this.retain();
    this.become({ ...this.state, ...change }, change, how !== "none");
  }

  /** Begin a step: undo returns to the state as it is now. */
  begin(): void {
    this.retain();
    this.begun = true;
  }

  private retain(): void {
    this.past.push(structuredClone(this.state));
    if (this.past.length > KEPT) this.past.shift();
    this.future = [];
  }

  undo(): void {
    this.exchange(this.past, this.future);
  }

  redo(): void {
    this.exchange(this.future, this.past);
  }

  private exchange(from: S[], to: S[]): void {
    const next = from.pop();
    if (!next) return;
    to.push(structuredClone(this.state));
    this.become(next, next, true, true);
  }

  /** Show what the address says, as after the browser's Back. */
  private follow(): void {
    if (fragment() === this.link()) return;
    clearTimeout(this.waiting);
    this.retain();
    this.state = this.schema.read(fragment());
    this.notify(this.state, true);
  }

  private become(state: S, change: Partial<S>, step: boolean, whole = false): void {
    const before = this.state;
    this.state = state;
    if (step || this.begun) this.push(before);
    else if (this.schema.write(before) !== this.link()) this.remember();
    this.begun = false;
    this.notify(change, whole);
  }

  /** whole: any field may differ, since a step was undone or the address changed. */
  protected changed(_change: Partial<S>, _whole: boolean): void {}

  private notify(change: Partial<S>, whole: boolean): void {
    this.changed(change, whole);
    for (const listener of this.listeners) listener.call(change);
  }

  private kindOf(change: Partial<S>): Steps {
    const all = (Object.keys(change) as (keyof S)[]).map((name) => this.schema.fields[name]?.history);
    return all.includes("undo") ? "undo" : all.includes("back") ? "back" : "none";
  }

  // --- the address -------------------------------------------------------------------------------------------------------
  private push(before: S): void {
    clearTimeout(this.waiting);
    const [left, link] = [this.schema.write(before), this.link()];
    if (link === left) return;
    if (fragment() !== left) this.write("replaceState", left);
    this.write("pushState", link);
  }

  private remember(): void {
    clearTimeout(this.waiting);
    const replace = () => this.link() !== fragment() && this.write("replaceState", this.link());
    this.times = this.times.filter((time) => time > performance.now() - DURING);
    if (this.times.length < MANY) replace();
    else this.waiting = window.setTimeout(replace, LATER);
  }

  private write(how: "pushState" | "replaceState", link: string): void {
    this.times.push(performance.now());
    try {
      history[how](null, "", link ? `#${link}` : location.pathname + location.search);
    } catch {
      // A page without an address: the state lives here.
    }
  }
}

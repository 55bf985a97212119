// The book around its text: where a reader is, the way back and on, and one state for all figures, which is the address.
import { button, h } from "../../core/dom";
import { actsOn, fromHash, type Place, toHash } from "./address";
import { claims } from "./claims";
import type { Sentence } from "./sentence";

/** What `<equiscope-figure>` and `<equiscope-exercise>` have in common: a state that is a text, and an event when it changes. */
export interface Stateful extends HTMLElement {
  state: string;
}

const CHANGED = "equiscope-state"; // the event of both elements
const QUIET = 200; // milliseconds after the last change until the address holds it
const WIDE = "(min-width: 1100px)"; // where the contents stand beside the text

export class Shell {
  private readonly chapters: HTMLElement[];
  private readonly elements = new Map<string, Stateful>();
  private readonly initial = new Map<string, string>();
  private readonly watchers = new Map<string, (() => void)[]>();
  private place: Place = { at: "", shown: {} };
  private current = -1; // index of the chapter on screen
  private later = 0;

  constructor(
    private readonly text: HTMLElement,
    private readonly contents: HTMLElement,
    bar: HTMLElement,
    sentence?: Sentence,
  ) {
    this.chapters = [...text.querySelectorAll<HTMLElement>(":scope > section")];
    sentence?.prepare(text);
    for (const element of text.querySelectorAll<Stateful>("equiscope-figure, equiscope-exercise")) {
      this.elements.set(element.id, element);
      this.initial.set(element.id, element.getAttribute("state") ?? "");
      if (element.matches("equiscope-figure")) element.replaceChildren(h("p.coming", "The figure is loading …"));
    }
    claims(text);
    sentence?.lines(text, this);
    bar.replaceChildren(...this.bar());
    this.listen();
    this.arrive(fromHash(location.hash));
  }

  // --- figures -----------------------------------------------------------------------------------------------------------------
  /** What a figure shows now. */
  state(id: string): string {
    return this.place.shown[id] ?? this.initial.get(id) ?? "";
  }

  /** Show another state of a figure: a step that Back takes back. */
  show(id: string, state: string): void {
    this.step({ ...this.place, shown: this.with(id, state) });
    this.apply(id);
  }

  /** Do something whenever the state of a figure changes. */
  watch(id: string, done: () => void): void {
    this.watchers.set(id, [...(this.watchers.get(id) ?? []), done]);
  }

  private with(id: string, state: string): Place["shown"] {
    const { [id]: _, ...others } = this.place.shown;
    return state === this.initial.get(id) ? others : { ...others, [id]: state };
  }

  /** The element shows what the place says. */
  private apply(id: string): void {
    const element = this.elements.get(id);
    if (element && element.state !== this.state(id)) element.state = this.state(id);
    for (const done of this.watchers.get(id) ?? []) done();
  }

  // --- where a reader is -------------------------------------------------------------------------------------------------------
  /** Go to a chapter, a heading or a term: a step that Back takes back. */
  go(id: string): void {
    if (!document.getElementById(id)) return;
    this.step({ ...this.place, at: id });
    this.scroll(id);
    this.keep();
  }

  private scroll(id: string): void {
    const found = document.getElementById(id);
    if (!found) return;
    found.scrollIntoView({ block: "start", behavior: "instant" });
    const focused = found.matches("section") ? found.querySelector<HTMLElement>("h1, h2") : found;
    focused?.setAttribute("tabindex", "-1");
    focused?.focus({ preventScroll: true });
    this.look();
  }

  /** Show a place as somebody finds it who comes here, or comes back. */
  private arrive(place: Place, y?: number): void {
    const before = this.place.shown;
    clearTimeout(this.later);
    this.place = place;
    for (const id of new Set([...Object.keys(before), ...Object.keys(place.shown)])) this.apply(id);
    if (y !== undefined) scrollTo({ top: y, behavior: "instant" });
    else if (place.at) this.scroll(place.at);
    this.look();
  }

  // History may be missing: a page in a sandboxed frame has none. Then the state is here, in `place`, and nowhere else.
  private step(place: Place): void {
    this.keep();
    this.place = place;
    this.write("pushState", scrollY);
  }

  private keep(): void {
    clearTimeout(this.later);
    this.write("replaceState", scrollY);
  }

  private write(how: "pushState" | "replaceState", y: number): void {
    const hash = toHash(this.place);
    try {
      history[how]({ y }, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      return;
    }
  }

  private soon(): void {
    clearTimeout(this.later);
    this.later = window.setTimeout(() => this.keep(), QUIET);
  }

  /** The chapter on screen, and how far it is. */
  private look(): void {
    const line = innerHeight * 0.4;
    const at = this.chapters.filter((chapter) => chapter.getBoundingClientRect().top <= line).length - 1;
    const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
    document.body.style.setProperty("--read", String(Math.min(1, scrollTop / Math.max(1, scrollHeight - clientHeight))));
    if (Math.max(at, 0) === this.current) return;
    this.current = Math.max(at, 0);
    this.mark();
  }

  /** After scrolling: the place is the chapter on screen, unless a heading or a term that somebody went to still is. */
  private passed(): void {
    const named = document.getElementById(this.place.at)?.matches(":not(section)") && document.getElementById(this.place.at);
    const box = named && named.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) return;
    this.place.at = this.current ? this.chapters[this.current].id : "";
  }

  private readonly here = h("span.here");
  private readonly before = h("a.before", { "aria-label": "previous chapter", title: "previous chapter (←)" }, "←");
  private readonly after = h("a.after", { "aria-label": "next chapter", title: "next chapter (→)" }, "→");
  private readonly menu = button("Contents", "chapters of the book", () => this.toggle(), { "aria-expanded": "false", "aria-controls": "contents", class: "menu" }); // prettier-ignore

  private mark(): void {
    const { id } = this.chapters[this.current];
    for (const link of this.contents.querySelectorAll("a")) {
      const inside = decodeURIComponent(link.hash) === `#${id}`;
      if (inside) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
      link.parentElement!.classList.toggle("open", inside);
    }
    this.here.textContent = this.titleOf(this.current);
    for (const [link, to] of [
      [this.before, this.current - 1],
      [this.after, this.current + 1],
    ] as const) {
      // prettier-ignore
      const chapter = this.chapters[to];
      if (chapter) link.setAttribute("href", `#${chapter.id}`);
      else link.removeAttribute("href");
    }
    document.title = `${this.titleOf(this.current)} - equiscope`;
  }

  private titleOf(index: number): string {
    return this.chapters[index].querySelector("h1, h2")?.textContent ?? "";
  }

  private bar(): HTMLElement[] {
    const copied = h("span.spoken", { role: "status" });
    const copy = button(
      "Copy link",
      "A link to this chapter, with its figures as they are",
      async () => {
        this.keep();
        const link = `${location.href.split("#")[0]}#${toHash(this.place)}`;
        const done = await navigator.clipboard?.writeText(link).then(
          () => true,
          () => false,
        );
        copied.textContent = done ? "The link is copied." : `The browser does not let this page copy. The link is ${link}`;
      },
      { class: "copy" },
    );
    return [this.menu, this.here, h("span.turn", this.before, this.after), copy, copied, h("div.read", { "aria-hidden": "true" })];
  }

  private toggle(open = this.menu.getAttribute("aria-expanded") !== "true"): void {
    this.menu.setAttribute("aria-expanded", String(open));
    this.contents.classList.toggle("open", open);
  }

  private listen(): void {
    history.scrollRestoration = "manual";
    addEventListener("popstate", ({ state }) => this.arrive(fromHash(location.hash), (state as { y?: number } | null)?.y));
    addEventListener("scroll", () => {
      this.look();
      if (!matchMedia(WIDE).matches) this.toggle(false);
      this.passed();
      this.soon();
    }, { passive: true }); // prettier-ignore
    new ResizeObserver(() => this.look()).observe(this.text); // figures have found their size
    this.text.addEventListener(CHANGED, ({ target }) => {
      const element = target as Stateful;
      if (!this.elements.has(element.id) || this.state(element.id) === element.state) return;
      this.place.shown = this.with(element.id, element.state);
      for (const done of this.watchers.get(element.id) ?? []) done();
      this.soon();
    });
    document.addEventListener("click", (event) => this.follow(event), true); // before the figures do
    document.addEventListener("keydown", (event) => this.turn(event));
  }

  /** A link within the book goes there; one with a question mark acts on a figure, which makes it a step. */
  private follow(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>('a[href^="#"]') : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    if (this.elements.has(actsOn(link.getAttribute("href")!) ?? "")) return this.step(this.place);
    const id = decodeURIComponent(link.hash.slice(1));
    event.preventDefault();
    this.toggle(false);
    if (id === this.text.id) this.scroll(id);
    else this.go(id);
  }

  private turn(event: KeyboardEvent): void {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.toggle(false);
    if (!by || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target instanceof Element && event.target.closest("input, select, textarea, pre, .scroll, [role]")) return;
    const chapter = this.chapters[this.current + by];
    if (!chapter) return;
    event.preventDefault();
    this.go(chapter.id);
  }
}

// <equiscope-figure src="love.html" state="story=shuffle" part="strip output" title="…">: a page of equiscope in any document.
//
// src     a page that `equiscope … --export` wrote, or one that stands in the document: <script data-figure="love.html">
// state   what it shows at first, as in its link
// part    names of the parts to show; the others wait behind "more"
// title   the accessible name of the frame
// height  pixels up to which the frame grows with its page; then it scrolls
// room    the CSS length that is kept free until the page is there, so that nothing moves (default 16rem)
//
// What stands between its tags is shown until the page is there, and where it is not. The page is mounted when the reader comes near, and
// of many the farthest is taken away, with its state kept. A script has `state`, `merge(change)`, `reset()` and `ask(goal)`; a change by a
// person or a script dispatches "equiscope-state".
import type { Marked } from "../core/goals";
import { isPacked, packed } from "./packed";
import { type Channel, channel, sandboxed, themed } from "./host";
import { figureLink, fitting, type FromPage, merged } from "./messages";

const NEAR = "100% 0px"; // mounted within one screen above and below
const MOST = 8; // figures that are mounted at a time, unless more are near: each takes about 15 MB
const SILENCE = 10_000; // milliseconds after which a loaded frame that has said nothing holds no page of ours
const SETTLED = 80; // milliseconds without scrolling
const STEP = 700; // milliseconds: faster changes, as of a slider, are undone together
const LEAST = 40; // pixels
const ROOM = "16rem"; // before the page is there
const STYLE = `
  :host { display: block; position: relative; margin: 1.2em 0; }
  :host([hidden]) { display: none; }
  .frame { box-sizing: border-box; border: 1px solid color-mix(in srgb, currentColor 22%, transparent); border-radius: 9px; overflow: hidden; }
  .blank { margin: 0; padding: 1rem; }
  .bar { display: flex; justify-content: flex-end; gap: 1.1em; margin-top: .25em; font: 400 13px/1.9 system-ui, sans-serif; }
  .bar > * { font: inherit; color: inherit; background: none; border: 0; padding: 0 .2em; cursor: pointer; text-decoration: underline; text-underline-offset: 3px; }
  .bar > :disabled { opacity: .45; cursor: default; text-decoration: none; }
  :focus-visible { outline: 2px solid currentColor; outline-offset: 2px; border-radius: 3px; }
  .failed { margin: 0; padding: .6rem 1rem; font-weight: 600; }
  .spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .marker { position: absolute; left: 0; width: 1px; pointer-events: none; scroll-margin-block: 4rem 6.5rem; }
  @media print { .bar { display: none; } .frame { min-height: 0 !important; } }`;

interface Question {
  goal: string;
  resolve: (marked: Marked) => void;
  reject: (reason: Error) => void;
}

export class Figure extends HTMLElement {
  private readonly place = make("div", "frame");
  private readonly blank = make("slot");
  private readonly failed = make("p", "failed", { hidden: true });
  private readonly status = make("p", "spoken");
  private readonly marker = make("div", "marker");
  private readonly opens = make("a", "", { textContent: "open", title: "The whole page, with this state", target: "_blank", rel: "noopener" }); // prettier-ignore
  private readonly undoes = make("button", "", { type: "button", textContent: "undo", title: "Take back the last change", disabled: true }); // prettier-ignore
  private readonly questions = new Map<number, Question>();
  private readonly near = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.mount(), { rootMargin: NEAR }); // prettier-ignore
  private readonly scrolled = () => this.follow();
  private frame?: HTMLIFrameElement;
  private page?: Channel;
  private link?: string;
  private readonly past: string[] = []; // states that "undo" returns to
  private changedAt = -Infinity;
  private asked = 0;
  private below = 0;
  private timer = 0;
  private whole = false; // opened in place
  private away = () => {};

  constructor() {
    super();
    const bar = make("div", "bar");
    const reset = make("button", "", { type: "button", textContent: "reset", title: "Back to the first state" });
    reset.addEventListener("click", () => this.reset());
    this.undoes.addEventListener("click", () => this.undo());
    this.opens.addEventListener("click", (event) => this.openWhole(event));
    this.status.setAttribute("role", "status");
    bar.append(this.undoes, reset, this.opens);
    this.place.append(this.blank, this.failed);
    this.attachShadow({ mode: "open" }).append(
      make("style", "", { textContent: STYLE }),
      this.place,
      bar,
      this.marker,
      this.status,
    );
  }

  connectedCallback(): void {
    this.blank.replaceChildren(make("p", "blank", { textContent: this.title }));
    this.opens.setAttribute("aria-label", `open the whole page: ${this.title}`);
    this.refer();
    if (!this.frame) this.place.style.minHeight ||= this.getAttribute("room") ?? ROOM;
    this.near.observe(this);
    for (const name of ["scroll", "resize"]) addEventListener(name, this.scrolled, { passive: true, capture: true });
  }

  disconnectedCallback(): void {
    this.near.disconnect();
    for (const name of ["scroll", "resize"]) removeEventListener(name, this.scrolled, { capture: true });
    this.unmount();
  }

  /** What the page shows, as in its link. */
  get state(): string {
    return this.link ?? this.first;
  }

  set state(link: string) {
    if (link === this.state) return;
    this.remember();
    this.put(link);
  }

  /** The state of the attribute. */
  get first(): string {
    return this.getAttribute("state") ?? "";
  }

  /** Change fields of the state. said: announced to a screen reader. */
  merge(change: string, said = ""): void {
    this.state = merged(this.state, change);
    this.status.textContent = said;
  }

  reset(): void {
    this.state = this.first;
  }

  /** Back to the state before the last change, by whomever. */
  undo(): void {
    const before = this.past.pop();
    this.changedAt = performance.now(); // the page answers with the same state in its own words
    if (before !== undefined) this.put(before);
  }

  /** Whether a goal of the page is reached; mounts the page. Rejects where the page has no such goal, or is none of ours. */
  ask(goal: string): Promise<Marked> {
    this.mount();
    return new Promise((resolve, reject) => {
      const number = ++this.asked;
      this.questions.set(number, { goal, resolve, reject });
      this.page!.tell({ goal, number });
    });
  }

  mount(): void {
    if (this.frame) return;
    mounted.add(this);
    while (mounted.size > MOST && takeDown());
    const frame = (this.frame = sandboxed(this.title, "height:0"));
    this.page = channel(frame, (message) => this.heard(message), () => this.loaded()); // prettier-ignore
    this.away = themed(frame, this);
    const link = this.whole ? this.state : figureLink(this.state, this.getAttribute("part"));
    packed(this.source).then(
      (text) => {
        if (text === undefined) frame.src = `${this.source}#${link}`;
        else frame.srcdoc = withLink(text, link);
      },
      (error: Error) => this.fail(error.message),
    );
    this.place.append(frame);
  }

  /** Take the page away; its state and its room are kept. */
  unmount(): void {
    mounted.delete(this);
    this.place.style.minHeight = `${this.place.offsetHeight}px`;
    clearTimeout(this.timer);
    this.away();
    this.page?.close();
    this.frame?.remove();
    this.frame = this.page = undefined;
    this.below = 0;
    this.blank.hidden = false;
  }

  private get source(): string {
    return this.getAttribute("src") ?? "";
  }

  private loaded(): void {
    for (const [number, { goal }] of this.questions) this.page!.tell({ goal, number });
    setTimeout(() => this.blank.hidden || this.fail(`“${this.source}” is no page that equiscope has written, or it is not there.`), SILENCE); // prettier-ignore
  }

  private put(link: string): void {
    this.link = link;
    this.page?.tell({ link });
    this.changed();
  }

  private remember(): void {
    const now = performance.now();
    if (now - this.changedAt > STEP) this.past.push(this.state);
    this.changedAt = now;
  }

  private heard(message: FromPage): void {
    if ("link" in message) {
      if (message.link === this.link) return;
      if (message.acted) this.remember();
      this.link = message.link;
      if (message.acted) this.changed();
      else this.refer();
    } else if ("height" in message) {
      this.frame!.style.height = `${fitting(message.height, Number(this.getAttribute("height")), LEAST)}px`;
      this.blank.hidden = this.failed.hidden = true;
      this.place.style.minHeight = "";
      this.follow();
    } else if ("show" in message) this.show(...message.show);
    else if ("marked" in message) this.marked(message.number, message.marked);
  }

  private marked(number: number, marked: Marked | string[]): void {
    const { goal, resolve, reject } = this.questions.get(number) ?? {};
    this.questions.delete(number);
    if (!Array.isArray(marked)) resolve?.(marked);
    else reject?.(new Error(`The page of this figure has no goal “${goal}”. It has: ${marked.join(", ") || "none"}.`));
  }

  private fail(why: string): void {
    this.failed.textContent = why;
    this.failed.hidden = false;
    for (const { reject } of this.questions.values()) reject(new Error(why));
    this.questions.clear();
  }

  private changed(): void {
    this.refer();
    this.dispatchEvent(new CustomEvent("equiscope-state", { bubbles: true, composed: true, detail: { state: this.state } }));
  }

  private refer(): void {
    this.undoes.disabled = !this.past.length;
    this.opens.href = `${this.source}#${this.state}`;
  }

  /** Bring rows of the page on screen, where they are not. */
  private show(top: number, bottom: number): void {
    const { offsetTop, offsetHeight } = this.frame!;
    const within = (pixel: number) => Math.min(Math.max(pixel, 0), offsetHeight);
    this.marker.style.top = `${offsetTop + within(top)}px`;
    this.marker.style.height = `${within(bottom) - within(top)}px`;
    this.marker.scrollIntoView({ block: "nearest", behavior: calm() });
  }

  /** Tell the page how much of it is under the lower edge of the screen: its line of arithmetic stays in sight. */
  private follow(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      const box = this.frame?.getBoundingClientRect();
      if (!box?.height || box.bottom < 0 || box.top > innerHeight) return;
      const scale = this.frame!.offsetHeight / box.height; // slides are scaled
      const below = Math.round(Math.max(0, box.bottom - innerHeight) * scale);
      if (below !== this.below) this.page!.tell({ below: (this.below = below) });
    }, SETTLED);
  }

  /** A page that stands in the document opens in a tab of its own, or, where the document may open none, in place. */
  private async openWhole(event: Event): Promise<void> {
    if (!this.whole && !isPacked(this.source)) return;
    event.preventDefault();
    const text = this.whole ? undefined : await packed(this.source);
    const address = text && URL.createObjectURL(new Blob([withLink(text, this.state)], { type: "text/html" }));
    if (address && window.open(address, "_blank")) return;
    this.whole = !this.whole;
    this.opens.textContent = this.whole ? "close" : "open";
    this.unmount();
    this.mount();
  }
}

/** Links of the text that act on a figure: <a href="#love?order=2,0,1"> sets fields of the state of the figure with the id "love". */
export function actOnFigures(event: MouseEvent): void {
  const link = event.composedPath().find((one) => one instanceof HTMLAnchorElement);
  const [, id, change] = /^#([^?]+)\?(.*)$/.exec(link?.getAttribute("href") ?? "") ?? [];
  const figure = id && document.getElementById(decodeURIComponent(id));
  if (!(figure instanceof Figure)) return;
  event.preventDefault();
  figure.merge(change, `${link!.textContent}: shown in the figure “${figure.title}”.`);
  figure.scrollIntoView({ block: "nearest", behavior: calm() });
}

const mounted = new Set<Figure>();

/** Take the page away that is farthest from the screen; false where all are near, or hold the focus. */
function takeDown(): boolean {
  const away = [...mounted].map((figure) => {
    const { top, bottom } = figure.getBoundingClientRect();
    return { figure, far: document.activeElement === figure ? 0 : Math.max(top - innerHeight, -bottom) };
  });
  const { figure, far } = away.reduce((most, one) => (one.far > most.far ? one : most));
  if (far > innerHeight) figure.unmount();
  return far > innerHeight;
}

const calm = (): ScrollBehavior => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

/** A page for a frame: its script reads the link there, since such a page has no address. */
const withLink = (text: string, link: string): string =>
  text.replace('data-link=""', () => `data-link="${link.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"`);

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  name = "",
  more: Partial<HTMLElementTagNameMap[K]> = {},
): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(tag), name && { className: name }, more);
}

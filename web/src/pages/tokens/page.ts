// The tokens page: a sound, a picture, a film, each with its tokenizations; one token down to a single number.
import type { Tokenised } from "../../core/contract";
import { h } from "../../core/dom";
import { fragment } from "../../core/state";
import { navigation } from "../../widgets/navigation";
import { film } from "./film";
import { picture } from "./picture";
import type { Player } from "./player";
import type { Section, Tell } from "./section";
import { sound, type SoundSection } from "./sound";
import { type Chosen, fromHash, initial, type Kind, KINDS, toHash, type TokensState } from "./state";
import "./tokens.css";

/** For scripts on the page. */
export interface TokensPage {
  record: Tokenised;
  state: TokensState;
  player?: Player;
  see(kind: Kind): void;
  set(change: Partial<Chosen>, passing?: boolean): void;
}

const NAMES: Record<Kind, string> = { sound: "Sound", picture: "Picture", film: "Film" };
const IN_HISTORY: (keyof Chosen)[] = ["cut", "way"]; // changes that the browser's back button undoes

export function mount(record: Tokenised, root: HTMLElement): TokensPage {
  const kinds = KINDS.filter((kind) => record[kind]);
  const sections = new Map<Kind, Section>();
  const page: TokensPage = {
    record,
    state: fromHash(fragment(), kinds, initial(kinds)),
    see(kind) {
      sections.get(page.state.see)?.leave?.();
      page.state = { ...page.state, see: kind };
      write(true);
      draw();
    },
    set(change, passing = false) {
      page.state = { ...page.state, [page.state.see]: { ...page.state[page.state.see], ...change } };
      if (!passing) write(IN_HISTORY.some((name) => name in change));
      sections.get(page.state.see)?.draw();
    },
  };
  const tell = (kind: Kind): Tell => ({
    now: () => page.state[kind],
    set: (change, passing) => page.set(change, passing),
  });

  /** A section is built when it is first opened. */
  function section(kind: Kind): Section {
    let found = sections.get(kind);
    if (!found) {
      if (kind === "sound") {
        found = sound(record.sound!, tell(kind));
        page.player = (found as SoundSection).player;
      } else found = kind === "picture" ? picture(record.picture!, tell(kind)) : film(record.film!, tell(kind));
      sections.set(kind, found);
    }
    return found;
  }

  const desk = h("main", { id: "story" });
  const tabs = h("nav.tabs", { "aria-label": "input", "data-part": "tabs" });
  const notes = record.notes ?? [];
  document.body.classList.add("tokens");
  root.replaceChildren(
    h(
      "header",
      navigation("tokens"),
      h("h1", { "data-part": "title" }, record.title),
      h("p.lede", { "data-part": "title" }, record.summary),
      notes.map((note) => h("p.quiet", { "data-part": "notes" }, note)),
      h("p.quiet", { "data-part": "title" }, "Tokens, numbers, bands, frames, rows and columns are counted from 0."),
    ),
    kinds.length > 1 ? tabs : "",
    desk,
    h("footer", { "data-part": "footer" }, "equiscope: this page contains the numbers of every token, as in training. It works offline and sends no data."), // prettier-ignore
  );

  function write(keep: boolean): void {
    const hash = toHash(page.state, kinds);
    if (hash === fragment()) return;
    history[keep ? "pushState" : "replaceState"](null, "", hash ? `#${hash}` : location.pathname + location.search);
  }
  function draw(): void {
    const { see } = page.state;
    tabs.replaceChildren(
      ...kinds.map((kind) => {
        const open = (event: Event) => {
          event.preventDefault();
          page.see(kind);
          tabs.querySelector<HTMLElement>("[aria-current]")?.focus();
        };
        return h("a", { href: `#see=${kind}`, "aria-current": kind === see ? "page" : false, onclick: open }, NAMES[kind]);
      }),
    );
    const one = section(see);
    if (desk.firstChild !== one.element) desk.replaceChildren(one.element);
    one.draw();
  }
  const navigate = () => {
    if (fragment() === toHash(page.state, kinds)) return;
    sections.get(page.state.see)?.leave?.();
    page.state = fromHash(fragment(), kinds, page.state);
    draw();
  };
  addEventListener("hashchange", navigate);
  addEventListener("popstate", navigate);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  return page;
}

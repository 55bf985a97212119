// The tokens page: a sound, a picture, a film, each with its tokenizations; one token down to a single number.
import type { Tokenised } from "../../core/contract";
import { h } from "../../core/dom";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { film } from "./film";
import { picture } from "./picture";
import type { Player } from "./player";
import type { Section, Tell } from "./section";
import { sound, type SoundSection } from "./sound";
import { type Chosen, chosen, type Kind, KINDS, stateOf, type TokensState } from "./state";
import "./tokens.css";

/** For scripts on the page. */
export interface TokensPage {
  record: Tokenised;
  readonly state: TokensState;
  player?: Player;
  see(kind: Kind): void;
  set(change: Partial<Chosen>, passing?: boolean): void;
}

const NAMES: Record<Kind, string> = { sound: "Sound", picture: "Picture", film: "Film" };

export function mount(record: Tokenised, root: HTMLElement): TokensPage {
  const kinds = KINDS.filter((kind) => record[kind]);
  const sections = new Map<Kind, Section>();
  const store = new Store(stateOf(kinds));
  let seen: Kind | undefined;
  const page: TokensPage = {
    record,
    get state() {
      return store.state;
    },
    see: (see) => store.set({ see }),
    set(change, passing = false) {
      const { see } = store.state;
      const step = (Object.keys(change) as (keyof Chosen)[]).some((name) => chosen.fields[name].history !== "none");
      store.set({ [see]: { ...store.state[see], ...change } }, { step: step && !passing });
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

  function draw(): void {
    const { see } = page.state;
    if (see === seen) return section(see).draw();
    if (seen) sections.get(seen)?.leave?.();
    seen = see;
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
  store.onChange(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  return page;
}

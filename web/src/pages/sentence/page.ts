// The page of a sentence: one story at a time, on the same words.
import type { Explorable } from "../../core/contract";
import { button, h, numbered, select } from "../../core/dom";
import { save } from "../../core/save";
import { App } from "./app";
import { Lab } from "./lab";
import { explainer } from "../../widgets/explain";
import { navigation } from "../../widgets/navigation";
import { clocks } from "./clocks";
import { numbers } from "./numbers";
import { positions, without } from "./positions";
import { readouts } from "./readouts";
import { shuffle } from "./shuffle";
import { slide } from "./slide";
import { STORIES, type StoryName } from "./state";
import type { Story } from "./story";
import { split } from "../../core/words";

const TITLE = { "data-part": "title" };
const COUNTED = "Heads and positions are counted from 0.";
const ALL: Record<StoryName, Story> = { numbers, shuffle, positions, slide, clocks, readouts };

export function start(page: Explorable, root: HTMLElement): App {
  const app = new App(new Lab(page));
  const main = h("main", { id: "story", tabindex: -1 });
  const top = h("header");
  app.rebuild = () => {
    const { story } = app.state;
    top.replaceChildren(...header(app, main));
    document.body.dataset.story = story;
    const { heading, lede, build } = ALL[story];
    main.replaceChildren(h("div.figure", h("h1", TITLE, heading), h("p.lede", TITLE, `${lede} ${COUNTED}`), build(app)));
    app.restorePoint();
  };
  root.replaceChildren(
    top,
    main,
    explainer(app),
    h(
      "footer",
      { "data-part": "footer" },
      "equiscope: every number on this page is computed in your browser, from the traced program of a real model. It works offline and sends nothing anywhere.",
    ),
  );
  app.restart();
  return app;
}

function header(app: App, main: HTMLElement): HTMLElement[] {
  const { state, page } = app;
  const saved = (kind: "svg" | "png") => {
    app.pin(undefined); // a picture shows the page, not where somebody points
    save(main, `equiscope-${state.story}`, kind);
  };
  const tabs = h(
    "nav.tabs",
    { "aria-label": "parts of this page", "data-part": "tabs" },
    STORIES.map((name) =>
      h(
        "a",
        {
          href: `#story=${name}`,
          "data-story": name,
          "aria-current": name === state.story ? "page" : false,
          onclick: (event: Event) => {
            event.preventDefault();
            app.set({ story: name }, { structure: true });
            scrollTo({ top: 0 });
          },
        },
        ALL[name].title,
      ),
    ),
  );
  return [
    navigation("sentence"),
    tabs,
    h(
      "div.top",
      sentence(app),
      h(
        "div.buttons",
        { "data-part": "tools" },
        button("↶ Undo", "Undo the last change (Ctrl+Z)", () => app.undo()),
        button("Reset", "Back to the initial state", () =>
          app.set({ ...app.schema.initial(), story: state.story }, { structure: true }),
        ),
        button("Copy link", "A link that restores this page as it is", () => copy(app)),
        button("SVG", "Save this page as an SVG picture", () => saved("svg")),
        button("PNG", "Save this page as a PNG picture", () => saved("png")),
      ),
    ),
    h("div.controls", { "data-part": "controls" }, controls(app)),
    ...(page.notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
  ];
}

/** The choices that the story on screen listens to. */
function controls(app: App): HTMLElement[] {
  const { state, page } = app;
  const listens = ALL[state.story].controls;
  const scheme = () => select("position scheme", page.schemes, state.scheme, (scheme) => app.set({ scheme }, { structure: true }));
  const mask = () => {
    const change = () => app.set({ causal: !app.state.causal }, { structure: true });
    return h("label.choice", h("input", { type: "checkbox", checked: state.causal, onchange: change }), h("span", "causal mask"));
  };
  const head = () =>
    select(
      "head",
      Array.from({ length: page.heads }, (_, i) => ({ name: String(i), title: `H${i}` })),
      String(state.head),
      (chosen) => app.set({ head: Number(chosen) }),
    );
  const digits = select("digits", numbered([0, 1, 2, 3, 4, 6]), String(state.digits), (chosen) =>
    app.set({ digits: Number(chosen) }),
  );
  return [
    ...(listens.includes("scheme") ? [scheme()] : []),
    ...(listens.includes("causal") ? [mask()] : []),
    ...(listens.includes("head") && page.heads > 1 ? [head()] : []),
    digits,
  ];
}

function sentence(app: App): HTMLElement {
  const input = h<HTMLInputElement>("input", {
    type: "text",
    value: app.state.words.join(" "),
    "aria-label": "your own sentence",
    maxlength: 4000,
    spellcheck: "false",
  });
  const message = h("span.quiet", { role: "status" });
  const form = h<HTMLFormElement>(
    "form.sentence",
    { "data-part": "sentence" },
    input,
    button("use", "Use this sentence", () => form.requestSubmit(), { type: "submit" }),
    message,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = split(input.value);
    if (!words.length) {
      message.textContent = "Type at least one word.";
      return;
    }
    const kept = words.slice(0, app.page.limit);
    app.set({ words: kept, order: kept.map((_, i) => i), edits: without(app.state.edits, "words") }, { structure: true });
    if (words.length > app.page.limit)
      document.querySelector(".sentence [role=status]")!.textContent =
        `The number-by-number pages take ${app.page.limit} words; the first ${app.page.limit} of ${words.length} are shown.`;
  });
  return form;
}

async function copy(app: App): Promise<void> {
  const hash = app.link();
  const link = location.href.split("#")[0] + (hash ? `#${hash}` : "");
  const status = document.querySelector(".sentence [role=status]")!;
  try {
    await navigator.clipboard.writeText(link);
    status.textContent = "Link copied.";
  } catch {
    status.textContent = "The link is in the address bar.";
  }
}

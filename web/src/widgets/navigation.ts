// The way on and the way back: a bar on every page. A server, or the folder of a site, says where the other pages are; a file on its
// own names the command that makes each of them.
import { h } from "../core/dom";

/** The pages: a title for the bar, and the command that makes one. */
const PAGES = {
  book: ["Book", "equiscope book"],
  sentence: ["Attention", 'equiscope explore "Love conquers all"'],
  reach: ["Reach", "equiscope explore --page reach"],
  masks: ["Masks", "equiscope explore --page masks"],
  graph: ["Graph", "equiscope explore --page graph"],
  tokens: ["Tokens", "equiscope explore --page tokens"],
  image: ["Image", "equiscope explore --page image"],
  cost: ["Cost", "equiscope explore --page cost"],
  molecule: ["Molecule", "equiscope explore --page molecule"],
  drawing: ["Drawing", "equiscope explore --model transformer-base"],
  heads: ["Heads", 'equiscope explore "a text" --model characters'],
  attribution: ["Attribution", 'equiscope explore "a text" --model characters --attribution'],
  watched: ["Program", 'equiscope explore "a text" --model characters --numbers'],
  check: ["Check", "equiscope check characters --html check.html"],
  parity: ["Parity", "equiscope parity A B --html parity.html"],
  run: ["Run", "equiscope explore RUN"],
  evaluation: ["Evaluation", "equiscope evaluate RUN --html evaluation.html"],
  compare: ["Compare", "equiscope compare RECIPE.toml --vary position=none,rope"],
  docs: ["Documentation", ""],
} as const;
export type PageName = keyof typeof PAGES;

/** A page that can be reached from this one. */
interface Link {
  page: PageName;
  href: string;
}

/** The bar of a page, whose heading becomes the title of the tab. In a frame there is no bar: the page around it has its own. */
export function navigation(here: PageName): HTMLElement {
  queueMicrotask(() => {
    const heading = document.querySelector("h1")?.textContent;
    if (heading) document.title = `${heading} - equiscope`;
  });
  const links = new Map(linked().map(({ page, href }) => [page, href]));
  const names = Object.keys(PAGES) as PageName[];
  const entry = (page: PageName) =>
    page === here
      ? h("a", { href: "#", "aria-current": "page", onclick: (event: Event) => event.preventDefault() }, PAGES[page][0])
      : h("a", { href: links.get(page) }, PAGES[page][0]);
  const away = names.filter((page) => page !== here && !links.has(page) && PAGES[page][1]);
  const home = links.get("book");
  return h(
    "nav.site",
    { "aria-label": "pages", hidden: window.parent !== window },
    home && here !== "book" ? h("a.brand", { href: home }, "equiscope") : h("span.brand", "equiscope"),
    h("div.pages", names.filter((page) => page === here || links.has(page)).map(entry)),
    away.length > 0 &&
      h(
        "details.others",
        h("summary", links.size ? "More pages" : "Other pages"),
        h(
          "div.commands",
          h(
            "p.quiet",
            links.size ? "These commands make more pages:" : "This file stands alone. These commands make the other pages:",
          ),
          h("dl", away.map((page) => h("div", h("dt", PAGES[page][0]), h("dd", h("code", PAGES[page][1]))))), // prettier-ignore
        ),
      ),
  );
}

/** The other pages, from the list that is written into this page. */
function linked(): Link[] {
  const found = document.getElementById("links");
  return found ? (JSON.parse(found.textContent!) as Link[]).filter(({ page }) => page in PAGES) : [];
}

// The book at build time: the chapters of docs/learn become one HTML text in which every link leads to something.
//
// Sphinx reads the same files, so they are MyST Markdown: raw HTML, targets "(name)=" and directives stand in them. A link to nothing, a
// name that stands twice or an exercise without its figure is a problem: the build prints it, and a test allows none.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import parser, { type MarkdownIt, type Token } from "markdown-it";
import type { Plugin } from "vite";

/** A sentence of the claims ledger, as docs/reference/claims.md records it. */
export interface LedgerEntry {
  statement: string;
  verdict: string;
  figure: string;
  limits: string;
  command: string;
  source: string;
}

interface Heading {
  id: string;
  text: string;
}

const CHAPTER = /^\d\d-[a-z0-9-]+\.md$/;
const COVER = "index.md";
const TARGET = /^\(([a-z0-9-]+)\)=\s*$/;
const LEDGER = "../reference/claims.md#";
const NOTES = ["note", "tip", "important", "warning"];
const REPOSITORY = new URL("..", import.meta.url);
const ANSWER = "recipes/questions/results/heads.json"; // also in bundle.py
const markdown = parser({ html: true }).use(targets);

/** Beside the script of the book: its text, and the recorded comparison that it shows. */
export const chapters = (): Plugin => ({
  name: "chapters",
  generateBundle() {
    const { html, problems } = book(fileURLToPath(new URL("docs", REPOSITORY)));
    const answer = readFileSync(new URL(ANSWER, REPOSITORY), "utf8");
    for (const problem of problems) this.warn(problem);
    this.emitFile({ type: "asset", fileName: "book.html", source: html });
    this.emitFile({ type: "asset", fileName: "answer.json", source: answer });
  },
});

/** The text of the book from the folder `docs`: contents, chapters, and the entries of the ledger that they refer to. */
export function book(docs: string): { html: string; problems: string[] } {
  const learn = join(docs, "learn");
  const files = readdirSync(learn).filter((name) => CHAPTER.test(name) || name === COVER).sort(); // prettier-ignore
  const problems: string[] = [];
  const parts = files.map((file) => new Part(file, readFileSync(join(learn, file), "utf8"), problems));
  const chapters = parts.filter((part) => part.file !== COVER);
  const links = new Links(docs, parts, ledger(readFileSync(join(docs, "reference", "claims.md"), "utf8")));
  const sections = [...parts.filter((part) => part.file === COVER), ...chapters].map((part) => section(part, chapters, links));
  const used = JSON.stringify(Object.fromEntries(links.claims)).replaceAll("<", "\\u003c");
  const article = `<article id="text">\n${together(sections.join("\n"))}\n</article>`;
  const html = `${contents(chapters)}\n${article}\n<script type="application/json" id="ledger">${used}</script>\n`;
  return { html, problems };
}

/** A line does not end between a parenthesis and the claim in it, or between a number and its percent sign. */
const together = (html: string): string =>
  html
    .replace(/\((<button [^>]*class="claim"[^>]*>[^<]*<\/button>\)[.,;:]?)/g, '<span class="together">($1</span>')
    .replace(/(\d)\s%/g, "$1\u00a0%");

/** A chapter, or the cover in front of the first one: its tokens, and what can be linked in it. */
class Part {
  readonly id: string;
  readonly title: string;
  readonly headings: Heading[] = [];
  readonly tokens: Token[];
  /** Addresses in the book by name as Sphinx knows them: targets and ids of raw HTML everywhere, headings within this file. */
  readonly names = new Map<string, string>();
  readonly anchors = new Map<string, string>();
  readonly figures: Map<string, string>[];
  readonly exercises: Map<string, string>[];
  private readonly raw: string;

  constructor(
    readonly file: string,
    text: string,
    private readonly problems: string[],
  ) {
    this.id = file === COVER ? "start" : file.replace(/\.md$/, "");
    this.tokens = markdown.parse(text, {});
    this.raw = htmlOf(this.tokens).join("\n");
    this.figures = elements(this.raw, "equiscope-figure");
    this.exercises = elements(this.raw, "equiscope-exercise");
    for (const [, id] of this.raw.matchAll(/\sid="([^"]+)"/g)) this.name(id, id);
    for (const { type, content } of this.tokens) if (type === "target" && !this.names.has(content)) this.name(content, content);
    for (const [i, token] of this.tokens.entries()) if (token.type === "heading_open") this.heading(token, this.tokens[i + 1]);
    const [first] = this.headings;
    if (this.tokens.find(({ type }) => type === "heading_open")?.tag !== "h1") this.problem("does not begin with a title");
    this.title = first?.text ?? this.id;
  }

  /** The number in front of the file's name. */
  get number(): number {
    return Number(this.file.slice(0, 2));
  }

  /** Whether an element with this id stands in raw HTML, so that a target of this name needs no anchor. */
  defines(name: string): boolean {
    return new RegExp(`\\sid="${name}"`).test(this.raw);
  }

  problem(why: string): void {
    this.problems.push(`docs/learn/${this.file} ${why}`);
  }

  private name(name: string, id: string): void {
    if (this.names.has(name)) this.problem(`has two things named "${name}"`);
    this.names.set(name, id);
  }

  private heading(open: Token, inline: Token): void {
    const text = plain(inline);
    const slug = unique(slugOf(text), (name) => this.anchors.has(name));
    const id = open.tag === "h1" ? this.id : `${this.id}/${slug}`;
    this.anchors.set(slug, id);
    if (open.tag === "h1" || open.tag === "h2") this.headings.push({ id, text });
    open.attrSet("id", open.tag === "h1" ? `${id}/title` : id);
    open.attrSet("tabindex", "-1");
  }
}

/** Where the links of all parts lead. Each claim that a link names is kept. */
class Links {
  readonly claims = new Map<string, LedgerEntry>();
  private readonly names = new Map<string, Part>();
  private readonly parts: Map<string, Part>;

  constructor(
    private readonly docs: string,
    parts: Part[],
    private readonly ledger: Map<string, LedgerEntry>,
  ) {
    this.parts = new Map(parts.map((part) => [part.file, part]));
    for (const part of parts) {
      for (const name of [part.id, ...part.names.keys()]) {
        if (this.names.has(name)) part.problem(`names "${name}", which ${this.names.get(name)!.file} does too`);
        this.names.set(name, part);
      }
    }
    for (const part of parts) this.check(part);
  }

  /** Attributes of a link with this address, and the element that it becomes. */
  resolve(part: Part, href: string): { tag: string; attributes: [string, string][] } {
    const link = (...attributes: [string, string][]) => ({ tag: "a", attributes });
    if (/^[a-z]+:/.test(href)) return link(["href", href]);
    if (href.startsWith(LEDGER)) {
      const name = href.slice(LEDGER.length);
      const entry = this.ledger.get(name);
      if (entry) this.claims.set(name, entry);
      else part.problem(`names the claim "${name}", which the ledger does not have`);
      return {
        tag: "button",
        attributes: [["type", "button"], ["class", "claim"], ["data-claim", name], ["aria-expanded", "false"]],
      }; // prettier-ignore
    }
    const [path, anchor] = href.split("#");
    const target = path ? this.parts.get(path) : part;
    if (target) return link(["href", `#${this.within(part, target, anchor)}`], ["class", anchor?.startsWith("term-") ? "term" : "within"]); // prettier-ignore
    const page = posix.join("learn", path);
    if (!existsSync(join(this.docs, page))) part.problem(`links to ${href}, where there is nothing`);
    const address = `../${page.replace(/\.md$/, ".html")}${anchor ? `#${anchor}` : ""}`;
    return link(["class", "elsewhere"], ["data-page", `docs/${page}`], ["href", address]);
  }

  private within(part: Part, target: Part, anchor = ""): string {
    if (!anchor) return target.id;
    const named = this.names.get(anchor)?.names.get(anchor);
    const found = named ?? target.anchors.get(anchor);
    if (!found) part.problem(`links to #${anchor} of ${target.file}, where there is nothing`);
    return found ?? target.id;
  }

  /** Figures, exercises and the links that act on figures fit together. */
  private check(part: Part): void {
    for (const figure of part.figures) {
      const id = figure.get("id");
      if (!id) part.problem("has a figure without an id");
      if (!/^figures\/[a-z]+\.html$/.test(figure.get("src") ?? ""))
        part.problem(`has a figure "${id}" whose src is no figures/NAME.html`);
      if (!figure.get("title")) part.problem(`has a figure "${id}" without a title`);
    }
    for (const exercise of part.exercises) {
      const figure = exercise.get("figure") ?? "";
      if (!part.figures.some((one) => one.get("id") === figure))
        part.problem(`has an exercise of a figure "${figure}" that it does not have`);
      if (!exercise.get("goal")) part.problem(`has an exercise of "${figure}" without a goal`);
    }
    for (const [, name, query] of htmlOf(part.tokens)
      .join("\n")
      .matchAll(/\shref="#([^"?]+)(\?[^"]*)?"/g)) {
      const owner = this.names.get(name);
      const isFigure = owner?.figures.some((one) => one.get("id") === name);
      if (!owner || (query && !isFigure)) part.problem(`links to #${name}, where there is no ${query ? "figure" : "such thing"}`);
    }
  }
}

// --- HTML ----------------------------------------------------------------------------------------------------------------------

/** A section of the article, with the way back and the way on at its end. */
function section(part: Part, chapters: Part[], links: Links): string {
  const at = chapters.indexOf(part);
  const open = `<section class="${at < 0 ? "cover" : "chapter"}" id="${part.id}" data-file="${part.file}" aria-labelledby="${part.id}/title">`;
  const way = (to: Part | undefined, rel: string, words: (title: string) => string) =>
    to ? `<a rel="${rel}" href="#${to.id}">${words(escaped(to.title))}</a>` : "";
  const ways = [way(chapters[at - 1], "prev", (title) => `← ${title}`), way(chapters[at + 1], "next", (title) => `${title} →`)];
  const turn = ways.some(Boolean) ? `<nav class="turn" aria-label="after ${escaped(part.title)}">${ways.join("")}</nav>\n` : "";
  return `${open}\n${render(part, links)}${turn}</section>`;
}

function contents(chapters: Part[]): string {
  const items = chapters.map(({ id, title, headings, number }) => {
    const inner = headings.slice(1).map((one) => `<li><a href="#${one.id}">${escaped(one.text)}</a></li>`);
    return `<li><a data-number="${number}" href="#${id}">${escaped(title)}</a>${inner.length ? `<ol>${inner.join("")}</ol>` : ""}</li>`;
  });
  return `<nav id="contents" aria-label="Contents"><ol>${items.join("\n")}</ol></nav>`;
}

function render(part: Part, links: Links): string {
  const { rules } = markdown.renderer;
  let inFigure = false; // what stands there is for a reader without scripts, and pictures of it for other pages
  const closing: string[] = [];
  const tokens = ended(part.tokens.filter((token) => !(token.type === "fence" && directive(token) === "toctree")));
  let first = true;
  const own: typeof rules = {
    heading_open: (all, i, options, _env, self) => {
      const number = part.file === COVER || all[i].tag !== "h1" ? "" : `<span class="number">${part.number}</span> `;
      all[i].tag = deeper(part, all[i].tag);
      return self.renderToken(all, i, options) + number;
    },
    heading_close: (all, i) => `</${deeper(part, all[i].tag)}>\n`,
    paragraph_open: (all, i, options, _env, self) => {
      if (first && !all[i].hidden) all[i].attrSet("class", "question");
      first = false;
      return self.renderToken(all, i, options);
    },
    link_open: (all, i) => {
      const { tag, attributes } = links.resolve(part, String(all[i].attrGet("href")));
      closing.push(tag);
      return `<${tag}${attributes.map(([name, value]) => ` ${name}="${escaped(value)}"`).join("")}>`;
    },
    link_close: () => `</${closing.pop()}>`,
    target: (all, i) => (part.defines(all[i].content) ? "" : `<span class="target" id="${all[i].content}"></span>\n`),
    html_block: (all, i) => {
      const text = all[i].content.replace(/<!--[^]*?-->/g, "");
      inFigure = text.lastIndexOf("<equiscope-figure") > text.lastIndexOf("</equiscope-figure") || (inFigure && !text.includes("</equiscope-figure")); // prettier-ignore
      return named(text).replace(/(<equiscope-figure\b[^>]*>)([^]*?)(<\/equiscope-figure>)/g, (_, open, inner, close) => open + inner.replace(/<img\b[^>]*>/g, "") + close); // prettier-ignore
    },
    image: (all, i) => {
      if (!inFigure) part.problem(`shows the picture ${all[i].attrGet("src")}, and the book has live figures only`);
      return "";
    },
    fence: (all, i) => {
      const name = directive(all[i]);
      if (name && !NOTES.includes(name)) part.problem(`has a directive {${name}}, which the book does not know`);
      if (name)
        return `<aside class="${name}">\n${renderer.render(markdown.parse(all[i].content, {}), markdown.options, {})}</aside>\n`;
      return `<pre tabindex="0"><code class="language-${escaped(all[i].info.trim() || "text")}">${escaped(all[i].content)}</code></pre>\n`;
    },
    table_open: () => '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>\n',
    table_close: () => "</table></div>\n",
  };
  const renderer = Object.assign(Object.create(markdown.renderer) as typeof markdown.renderer, { rules: { ...rules, ...own } });
  return renderer.render(tokens, markdown.options, {});
}

/** Without a last paragraph "Next: ...", which the way on at the end of a chapter replaces. */
function ended(tokens: Token[]): Token[] {
  const [open, inline, close] = tokens.slice(-3);
  const says = open?.type === "paragraph_open" && close.type === "paragraph_close" && /^Next: /.test(inline.content);
  return says ? tokens.slice(0, -3) : tokens;
}

/** An exercise gets an id, under which the address of the book holds its state. */
function named(html: string): string {
  return html.replace(/<equiscope-exercise\b([^>]*)>/g, (tag, inside: string) => {
    const [exercise] = elements(tag, "equiscope-exercise");
    return `<equiscope-exercise id="${exercise.get("figure")}-${exercise.get("goal")}"${inside.replace(/\sid="[^"]*"/, "")}>`;
  });
}

/** The book has one title; those of chapters stand below it. */
const deeper = (part: Part, tag: string): string => (part.file === COVER ? tag : `h${Number(tag[1]) + 1}`);

const escaped = (text: string): string => markdown.utils.escapeHtml(text);

// --- Markdown ------------------------------------------------------------------------------------------------------------------

/** A line "(name)=": the name of what follows. */
function targets(md: MarkdownIt): void {
  md.block.ruler.before(
    "paragraph",
    "target",
    (state, line, _end, silent) => {
      const text = state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);
      const found = TARGET.exec(text);
      if (!found) return false;
      if (silent) return true;
      state.push("target", "", 0).content = found[1];
      state.line = line + 1;
      return true;
    },
    { alt: ["paragraph"] },
  );
}

const directive = ({ info }: Token): string | undefined => /^\{([a-z]+)\}/.exec(info.trim())?.[1];

/** All raw HTML, in the order of the text. */
function htmlOf(tokens: Token[]): string[] {
  return tokens.flatMap((token) => [
    ...(token.type === "html_block" || token.type === "html_inline" ? [token.content] : []),
    ...htmlOf(token.children ?? []),
  ]);
}

/** Attributes of every element of this name. */
function elements(html: string, name: string): Map<string, string>[] {
  return [...html.matchAll(new RegExp(`<${name}\\b([^>]*)>`, "g"))].map(
    ([, inside]) => new Map([...inside.matchAll(/([a-z-]+)="([^"]*)"/g)].map(([, key, value]) => [key, value])),
  );
}

const plain = (inline: Token): string =>
  (inline.children ?? []).map(({ type, content }) => (type === "text" || type === "code_inline" ? content : "")).join("");

/** The anchor of a heading, as MyST makes it. */
const slugOf = (text: string): string => text.trim().toLowerCase().replaceAll(" ", "-").replace(/[^\p{L}\p{N}_-]/gu, ""); // prettier-ignore

function unique(name: string, taken: (name: string) => boolean): string {
  let [found, n] = [name, 0];
  while (taken(found)) found = `${name}-${++n}`;
  return found;
}

// --- the ledger ----------------------------------------------------------------------------------------------------------------

/** The entries of docs/reference/claims.md, which docs/claims.py writes, by name. */
export function ledger(page: string): Map<string, LedgerEntry> {
  const found = page.split(/^### /m).slice(1);
  return new Map(
    found.map((text) => {
      const [name, statement, result, ...rest] = text.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("## ")); // prettier-ignore
      const verdict = /^\*\*(.+?)\.\*\* (.*)$/.exec(result);
      const last = /^`(.+)`\. \*Stated in: (.*)\*$/.exec(rest.at(-1) ?? "");
      if (!verdict || !last) throw new Error(`docs/reference/claims.md: the claim ${name} is not as docs/claims.py writes it.`);
      const limits = rest.slice(0, -1).filter((line) => !line.startsWith("!")).join(" "); // prettier-ignore
      const entry = { statement: statement.replace(/^“|”$/g, ""), verdict: verdict[1].toLowerCase(), figure: verdict[2], limits };
      return [name, { ...entry, command: last[1], source: last[2] }];
    }),
  );
}

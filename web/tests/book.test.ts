import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { book } from "../chapters";
import { actsOn, fromHash, toHash } from "../src/pages/book/address";

const DOCS = fileURLToPath(new URL("../../docs", import.meta.url));
const made: string[] = [];
afterAll(() => made.forEach((folder) => rmSync(folder, { recursive: true })));

const CLAIMS = `# Claims

### rows-sum-to-one

“Rows sum to 1.”

**True within limits.** Off by 1e-16.

Not where all is hidden.

\`equiscope study claims rows-sum-to-one\`. *Stated in: somewhere. Data: none.*
`;
const FIGURE =
  '<equiscope-figure id="love" src="figures/sentence.html" title="Three words">\n<img src="x.png">\n</equiscope-figure>';

/** A folder of docs with these files in learn/. */
function docs(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), "book-"));
  made.push(folder);
  for (const [name, text] of Object.entries({
    "../reference/claims.md": CLAIMS,
    "../howto/check.md": "# Check\n",
    "studies.md": "# Studies\n",
    ...files,
  })) {
    const path = join(folder, "learn", name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return folder;
}

const of = (files: Record<string, string>) => book(docs(files));
const chapter = (text: string) =>
  of({ "00-first.md": `# First\n\nWhat?\n\n${text}\n`, "01-second.md": "# Second\n\nAnd?\n\n## A part\n" });

describe("the text of the book", () => {
  test("its own chapters have no problems", () => {
    expect(book(DOCS).problems).toEqual([]);
  });

  test("is every chapter in order, each with the way back and on", () => {
    const { html, problems } = chapter("");
    expect(problems).toEqual([]);
    expect([...html.matchAll(/<section class="chapter" id="([^"]+)"/g)].map(([, id]) => id)).toEqual(["00-first", "01-second"]);
    expect(html).toContain('<a rel="next" href="#01-second">Second →</a>');
    expect(html).toContain('<a rel="prev" href="#00-first">← First</a>');
    expect(html).toContain(
      '<a data-number="1" href="#01-second">Second</a><ol><li><a href="#01-second/a-part">A part</a></li></ol>',
    );
    expect(html).toContain('<p class="question">What?</p>');
  });

  test("links lead to anchors of the book", () => {
    const { html, problems } = chapter("[next](01-second.md), [part](01-second.md#a-part), [term](#term-x)\n\n(term-x)=\nAn <dfn id=\"term-x\">x</dfn>.\n\n(spot)=\n## Here\n\n[spot](#spot) [here](#here)"); // prettier-ignore
    expect(problems).toEqual([]);
    for (const href of ["#01-second", "#01-second/a-part", "#term-x", "#spot", "#00-first/here"])
      expect(html).toContain(`href="${href}"`);
    expect(html.match(/id="term-x"/g)).toHaveLength(1);
    expect(html).toContain('<span class="target" id="spot"></span>');
  });

  test("links to other pages keep their address and their name", () => {
    const { html } = chapter("[how](../howto/check.md#x) and [studies](studies.md)");
    expect(html).toContain('<a class="elsewhere" data-page="docs/howto/check.md" href="../howto/check.html#x">how</a>');
    expect(html).toContain('data-page="docs/learn/studies.md" href="../learn/studies.html"');
  });

  test("a link to the ledger is a button, and its entry comes along", () => {
    const { html, problems } = chapter("It is so ([measured](../reference/claims.md#rows-sum-to-one)).");
    expect(problems).toEqual([]);
    expect(html).toContain('data-claim="rows-sum-to-one" aria-expanded="false">measured</button>');
    const entry = JSON.parse(/id="ledger">(.*?)<\/script>/.exec(html)![1])["rows-sum-to-one"];
    expect(entry).toEqual({
      statement: "Rows sum to 1.",
      verdict: "true within limits",
      figure: "Off by 1e-16.",
      limits: "Not where all is hidden.",
      command: "equiscope study claims rows-sum-to-one",
      source: "somewhere. Data: none.",
    });
  });

  test("a figure has no picture of itself, an exercise an address of its own", () => {
    const exercise = '<equiscope-exercise figure="love" goal="flat">\n<label><input type="radio" name="x" data-right> One</label>\n</equiscope-exercise>'; // prettier-ignore
    const { html, problems } = chapter(`${FIGURE}\n\n${exercise}`);
    expect(problems).toEqual([]);
    expect(html).not.toContain("<img");
    expect(html).toContain('<equiscope-exercise id="love-flat" figure="love" goal="flat">');
  });

  test.each([
    ["[x](#nothing)", "links to #nothing of 00-first.md, where there is nothing"],
    ["[x](../howto/none.md)", "links to ../howto/none.md, where there is nothing"],
    ["[x](../reference/claims.md#none)", 'names the claim "none", which the ledger does not have'],
    ['<a href="#love?order=1">x</a>', "links to #love, where there is no figure"],
    ['<equiscope-figure id="a" src="elsewhere.html" title="x">\n</equiscope-figure>', "whose src is no figures/NAME.html"],
    ['<equiscope-figure id="a" src="figures/a.html">\n</equiscope-figure>', 'has a figure "a" without a title'],
    ['<equiscope-exercise figure="b" goal="c">\n</equiscope-exercise>', 'has an exercise of a figure "b" that it does not have'],
    [`${FIGURE}\n\n${FIGURE}`, 'has two things named "love"'],
    ["![x](../pictures/x.png)", "shows the picture ../pictures/x.png, and the book has live figures only"],
    ["```{figure} x\n```", "has a directive {figure}, which the book does not know"],
  ])("a problem is named: %s", (text, problem) => {
    expect(chapter(text).problems.join("\n")).toContain(problem);
  });
});

describe("the address of the book", () => {
  test("holds the chapter, and what differs in figures", () => {
    const place = { at: "03-shuffle", shown: { love: "order=2,0,1&scheme=rope", "love-flat": "picked=1" } };
    expect(fromHash(`#${toHash(place)}`)).toEqual(place);
    expect(toHash({ at: "03-shuffle", shown: {} })).toBe("03-shuffle");
    expect(fromHash("#term-x")).toEqual({ at: "term-x", shown: {} });
    expect(fromHash("")).toEqual({ at: "", shown: {} });
    expect(fromHash("#%E0%A4%A")).toEqual({ at: "%E0%A4%A", shown: {} });
  });

  test("a link acts on a figure where it has a question mark", () => {
    expect(actsOn("#love?order=2,0,1")).toBe("love");
    expect(actsOn("#love")).toBeUndefined();
  });
});

// The layers of src, enforced.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { broken, importsOf, refusal } from "../layers.mjs";

test("every import of the page respects the layers", () => {
  expect(broken(fileURLToPath(new URL("../src", import.meta.url)))).toEqual([]);
});

test.each([
  ["pages/heads/page.ts", "pages/report/evidence.ts", /no page imports another/],
  ["core/names.ts", "pages/sentence/app.ts", /core imports from no other layer/],
  ["charts/plot.ts", "widgets/matrix.ts", /charts imports from core/],
  ["main.ts", "core/dom.ts", /no layer/],
])("%s may not import %s", (file, imported, why) => expect(refusal(file, imported)).toMatch(why));

test("a page imports from every other layer, and from itself", () => {
  for (const imported of ["core/dom.ts", "charts/axis.ts", "widgets/matrix.ts", "figure/messages.ts", "pages/heads/state.ts"])
    expect(refusal("pages/heads/page.ts", imported)).toBeUndefined();
});

test("imports of types, of files with effects, of workers and on demand are all found", () => {
  const text =
    'import type { A } from "../a";\nimport "./b.css";\nimport C from "./c?worker&inline";\nawait import("./d");\nimport "vite";';
  expect(importsOf("pages/x/page.ts", text)).toEqual(["pages/a", "pages/x/b.css", "pages/x/c", "pages/x/d"]);
});

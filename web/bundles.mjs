// The bundles and their entries: each page its own, so that no page carries another's. "frame" runs
// before the page where it stands in a frame; "figure" is the script of a document with such frames, "widget" the module of a notebook.
import { existsSync, readdirSync } from "node:fs";

const PAGES = new URL("src/pages/", import.meta.url);
const named = readdirSync(PAGES).filter((name) => existsSync(new URL(`${name}/main.ts`, PAGES)));

/** Entry by bundle. @type {Record<string, string>} */
export const BUNDLES = {
  ...Object.fromEntries(named.map((name) => [name, `src/pages/${name}/main.ts`])),
  figure: "src/figure/main.ts",
  widget: "src/figure/notebook.ts",
  frame: "src/figure/frame.ts",
};

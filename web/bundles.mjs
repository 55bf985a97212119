// The bundles and their entries: each page its own, so that no page carries another's. In a notebook a page stands in a frame: "frame"
// runs in it before the page, and "widget" is the module that anywidget puts around it.
import { existsSync, readdirSync } from "node:fs";

const PAGES = new URL("src/pages/", import.meta.url);
const named = readdirSync(PAGES).filter((name) => existsSync(new URL(`${name}/main.ts`, PAGES)));

/** Entry by bundle. @type {Record<string, string>} */
export const BUNDLES = {
  ...Object.fromEntries(named.map((name) => [name, `src/pages/${name}/main.ts`])),
  widget: "src/figure/notebook.ts",
  frame: "src/figure/frame.ts",
};

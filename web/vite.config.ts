import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

// A script and a style sheet with fixed names: Python wraps them into a page, a notebook cell or one offline file. The report of a
// check, the pages of a run, of a comparison and of all heads, and the pages of one subject have their own: no page carries another's.
// In a notebook a page stands in a frame: what runs in that frame before it, and the module that anywidget puts around it.
const OWN = ["report", "run", "compare", "heads", "masks", "graph", "cost", "tokens", "molecule", "watched", "widget", "frame"];
// three.js stands in the page of a molecule, and its licence in front of it.
const licence = () => `/*! three.js\n${readFileSync(new URL("node_modules/three/LICENSE", import.meta.url), "utf8")}*/`;

export default defineConfig(({ mode }) => {
  const own = OWN.includes(mode) ? mode : undefined;
  return {
    define: { "process.env.NODE_ENV": JSON.stringify("production") },
    build: {
      outDir: "../src/equiscope/explore/page",
      emptyOutDir: !own,
      target: "es2022",
      minify: true,
      sourcemap: false,
      reportCompressedSize: false,
      cssCodeSplit: false,
      lib: {
        entry: mode === "frame" ? "src/widget/frame.ts" : own ? `src/${own}/main.ts` : "src/main.ts",
        formats: [mode === "widget" ? "es" : "iife"],
        name: "equiscope",
        fileName: () => `${own ?? "page"}.js`,
        cssFileName: own ?? "page",
      },
      rollupOptions: own === "molecule" ? { output: { postBanner: licence() } } : {},
    },
    test: {
      include: ["src/**/*.test.ts", "tests/**/*.test.ts"],
    },
  };
});

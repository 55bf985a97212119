import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { BUNDLES } from "./bundles.mjs";
import { chapters } from "./chapters.ts";

// A script and a style sheet with fixed names: Python wraps them into a page, a notebook cell or one offline file.
// three.js stands in the page of a molecule, and its licence in front of it.
const licence = () => `/*! three.js\n${readFileSync(new URL("node_modules/three/LICENSE", import.meta.url), "utf8")}*/`;

export default defineConfig(({ mode }) => ({
  plugins: mode === "book" ? [chapters()] : [],
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  build: {
    outDir: "../src/equiscope/explore/page",
    emptyOutDir: false,
    target: "es2022",
    minify: true,
    sourcemap: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    lib: {
      entry: BUNDLES[mode] ?? BUNDLES.sentence,
      formats: [mode === "widget" ? "es" : "iife"],
      name: "equiscope",
      fileName: () => `${mode}.js`,
      cssFileName: mode,
    },
    rollupOptions: mode === "molecule" ? { output: { postBanner: licence() } } : {},
  },
  test: {
    include: ["src/**/*.test.ts", "tests/**/*.test.ts"],
  },
}));

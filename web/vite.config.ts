import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BUNDLES } from "./bundles.mjs";
import { chapters } from "./chapters.ts";
import { licences } from "./licences.mjs";

// A script and a style sheet with fixed names: Python wraps them into a page, a notebook cell or one offline file.
const NUMBERS = fileURLToPath(new URL("src/charts/d3.ts", import.meta.url));

export default defineConfig(({ mode }) => ({
  plugins: [licences(), ...(mode === "book" ? [chapters()] : [])],
  resolve: { alias: { "d3-interpolate": NUMBERS, "d3-format": NUMBERS } },
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
  },
  test: {
    include: ["src/**/*.test.ts", "tests/**/*.test.ts"],
  },
}));

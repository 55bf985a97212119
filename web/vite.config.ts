import { defineConfig } from "vitest/config";

// A script and a style sheet with fixed names: Python wraps them into a page, a notebook cell or one offline file. The report of a
// check has its own, so that no page carries another's.
export default defineConfig(({ mode }) => ({
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  build: {
    outDir: "../src/equiscope/explore/page",
    emptyOutDir: mode !== "report",
    target: "es2022",
    minify: true,
    sourcemap: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    lib: {
      entry: mode === "report" ? "src/report/main.ts" : "src/main.ts",
      formats: ["iife"],
      name: "equiscope",
      fileName: () => (mode === "report" ? "report.js" : "page.js"),
      cssFileName: mode === "report" ? "report" : "page",
    },
  },
  test: {
    include: ["src/**/*.test.ts", "tests/**/*.test.ts"],
  },
}));

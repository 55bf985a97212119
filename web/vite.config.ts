import { defineConfig } from "vitest/config";

// One script and one style sheet with fixed names: Python wraps them into a page, a notebook cell or one offline file.
export default defineConfig({
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  build: {
    outDir: "../src/equiscope/explore/page",
    emptyOutDir: true,
    target: "es2022",
    minify: true,
    sourcemap: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    lib: {
      entry: "src/main.ts",
      formats: ["iife"],
      name: "equiscope",
      fileName: () => "page.js",
      cssFileName: "page",
    },
  },
  test: {
    include: ["src/**/*.test.ts", "tests/**/*.test.ts"],
  },
});

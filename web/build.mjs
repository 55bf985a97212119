// Build every bundle: `npm run build`. One of them: `npx vite build --mode heads`.
import { rmSync } from "node:fs";
import { build } from "vite";
import { BUNDLES } from "./bundles.mjs";

rmSync(new URL("../src/equiscope/explore/page", import.meta.url), { recursive: true, force: true });
for (const mode of Object.keys(BUNDLES)) await build({ mode, logLevel: "warn" });

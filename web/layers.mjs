// The layers of src: `node layers.mjs` prints each import that breaks them; exit code 1 if there is one. A layer imports from itself and
// from those that it lists. No page imports another.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const LAYERS = {
  core: [],
  charts: ["core"],
  widgets: ["core", "charts"],
  figure: ["core"],
  pages: ["core", "charts", "widgets", "figure"],
};
const IMPORT = /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g;

/** The layer of a file, or the page that it belongs to. */
export const layerOf = (file) => {
  const [layer, page] = file.split("/");
  return layer === "pages" ? `pages/${page}` : layer;
};

/** Why a file may not import another; undefined where it may. Both are paths below src. */
export function refusal(file, imported) {
  const [from, to] = [layerOf(file), layerOf(imported)];
  const [layer, other] = [from.split("/")[0], to.split("/")[0]];
  if (from === to) return undefined;
  if (layer === "pages" && other === "pages") return `src/${file} imports src/${imported}: no page imports another`;
  if (!LAYERS[layer]) return `src/${file} is in no layer: ${Object.keys(LAYERS).join(", ")}`;
  if (LAYERS[layer].includes(other)) return undefined;
  const known = LAYERS[layer].length ? LAYERS[layer].join(", ") : "no other layer";
  return `src/${file} imports src/${imported}: ${layer} imports from ${known}`;
}

/** The imports of a file, as paths below src. */
export const importsOf = (file, text) =>
  [...text.matchAll(IMPORT)].map(([, path]) => join(dirname(file), path.split("?")[0]).replaceAll("\\", "/"));

export function broken(src) {
  const files = readdirSync(src, { recursive: true, withFileTypes: true }).filter(
    (one) => one.isFile() && one.name.endsWith(".ts"),
  );
  return files.flatMap((one) => {
    const path = join(one.parentPath ?? one.path, one.name);
    const file = relative(src, path).replaceAll("\\", "/");
    return importsOf(file, readFileSync(path, "utf8")).flatMap((imported) => refusal(file, imported) ?? []);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = broken(fileURLToPath(new URL("src", import.meta.url)));
  for (const line of found) console.error(line);
  process.exitCode = found.length ? 1 : 0;
}

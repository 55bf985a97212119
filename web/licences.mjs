// The licences of the packages that a bundle contains, in front of it.
import { readFileSync } from "node:fs";

/** A plugin of vite. @returns {import("vite").Plugin} */
export const licences = () => ({
  name: "licences",
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle))
      if (chunk.type === "chunk") chunk.code = notices(Object.keys(chunk.modules)) + chunk.code;
  },
});

/** One comment for each text, with the copyright of every package that has it. Modules are paths of files. */
export function notices(modules) {
  const folders = new Set(modules.flatMap((id) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0] ?? []));
  const texts = new Map();
  for (const folder of folders) {
    const name = /node_modules\/(.*)$/.exec(folder)[1];
    const lines = readFileSync(`${folder}/LICENSE`, "utf8").trim().split("\n");
    const own = lines.filter((line) => /^copyright/i.test(line));
    const text = lines.filter((line) => !own.includes(line)).join("\n").trim(); // prettier-ignore
    texts.set(text, [...(texts.get(text) ?? []), `${name}: ${own.join(", ")}`]);
  }
  return [...texts].map(([text, owners]) => `/*!\n${owners.join("\n")}\n\n${text}\n*/\n`).join("");
}

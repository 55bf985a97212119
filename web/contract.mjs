// Turn the JSON Schema of the records into TypeScript: `npm run contract`; with `-- --check`, only say whether it is stale.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const schema = new URL("../contract/schema.json", import.meta.url);
const target = new URL("src/core/contract.ts", import.meta.url);

const text = await compile(JSON.parse(await readFile(schema, "utf8")), "Contract", {
  additionalProperties: false,
  bannerComment: "// Generated from contract/schema.json by `npm run contract`. Do not edit.",
  format: true,
  style: { printWidth: 120 },
});

if (process.argv.includes("--check")) {
  const fresh = (await readFile(target, "utf8").catch(() => "")) === text;
  console.log(fresh ? "web/src/core/contract.ts is up to date" : "web/src/core/contract.ts is stale: npm run contract (in web/)");
  process.exitCode = fresh ? 0 : 1;
} else {
  await writeFile(target, text);
}

// Tables that more than one page has: any, the files of data, a recipe.
import type { DataFile } from "./contract";
import { h } from "./dom";

export const table = (
  caption: string,
  heads: string[],
  rows: (string | Node)[][],
  more: Record<string, unknown> = {},
): HTMLElement =>
  h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      more,
      h("caption.spoken", caption),
      h("thead", h("tr", heads.map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
      h("tbody", rows.map((row) => h("tr", row.map((cell, i) => (i ? h("td", cell) : h("th", { scope: "row" }, cell)))))), // prettier-ignore
    ),
  );

/** Where the numbers came from, file by file. */
export function sources(data: DataFile[]): HTMLElement {
  const rows = data.map(({ name, part, bytes, sha256 }) => [
    name,
    part,
    bytes.toLocaleString("en"),
    h("code.digest", { title: sha256 }, sha256),
  ]);
  return table("data", ["file", "part", "bytes", "sha256"], rows, { class: "data" });
}

/** A recipe's tables, each with its fields; inner tables are joined by dots, as --set writes them. */
export function recipe(fields: Record<string, unknown>): HTMLElement {
  const tables = new Map<string, [string, unknown][]>([["", []]]);
  for (const [name, value] of Object.entries(fields))
    if (isTable(value)) tables.set(name, flat(value));
    else tables.get("")!.push([name, value]);
  return h(
    "div.recipe",
    [...tables].map(([name, rows]) =>
      h(
        "div",
        h("h4", name ? `[${name}]` : "recipe"),
        h("dl", rows.map(([field, value]) => h("div", { "data-none": String(value === null) }, h("dt", field), h("dd", written(value))))), // prettier-ignore
      ),
    ),
  );
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function flat(fields: Record<string, unknown>, before = ""): [string, unknown][] {
  return Object.entries(fields).flatMap(([name, value]) =>
    isTable(value) ? flat(value, `${before}${name}.`) : [[`${before}${name}`, value] as [string, unknown]],
  );
}

/** As TOML writes it; what is not set is a dash. */
export const written = (value: unknown): string => (value === null || value === undefined ? "–" : JSON.stringify(value));

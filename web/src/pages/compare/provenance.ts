// Provenance: what was held equal, the command to reproduce it, the data, the shared recipe, the machine.
import type { Comparison } from "../../core/contract";
import { button, h } from "../../core/dom";
import { capital } from "../../core/format";
import { copied } from "../../core/save";
import { recipe, sources } from "../../core/tables";

export function provenance({ comparison }: { comparison: Comparison }): HTMLElement {
  const { command, data, versions, machine } = comparison;
  const facts = [...Object.entries(machine ?? {}), ...Object.entries(versions ?? {})].map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]); // prettier-ignore
  return h(
    "section.part.provenance",
    { "data-part": "provenance" },
    h("h2", "Provenance"),
    h("p", equal(comparison)),
    command && [h("h3", "Command to reproduce"), commandLine(command)],
    (data ?? []).length > 0 && [h("h3", "Data"), sources(data!)],
    Object.keys(comparison.recipe ?? {}).length > 0 && h("details", h("summary", "The shared recipe in full"), recipe(comparison.recipe as Record<string, unknown>)), // prettier-ignore
    facts.length > 0 && [h("h3", "Machine and versions"), h("dl.facts", facts.map(([name, text]) => h("div", h("dt", name), h("dd", text))))], // prettier-ignore
  );
}

const EQUAL = { parameters: "Widths were chosen so that all candidates have about the same number of parameters.", compute: "Steps were chosen so that all candidates take about the same number of multiply-adds.", "": "" }; // prettier-ignore

/** What differs, and what does not. */
export function equal({ varied, equal, seeds }: Comparison): string {
  const differs = varied.length ? `Only ${listed(varied)} ${varied.length > 1 ? "differ" : "differs"} between candidates.` : "";
  const within = (name: string) => varied.some((field) => field === name || field.startsWith(`${name}.`));
  const [seed, are] = seeds.length > 1 ? ["seeds", ` (seeds ${listed(seeds.map(String))})`] : ["seed", seeds.length ? ` (seed ${seeds[0]})` : ""]; // prettier-ignore
  const same = [!within("data") && "data", !within("budget") && equal !== "compute" && "budget", seed].filter(
    (name) => name !== false,
  );
  return [differs, capital(`${listed(same)} ${same.length > 1 || seeds.length > 1 ? "are" : "is"} the same for all${are}.`), EQUAL[equal ?? ""]].filter(Boolean).join(" "); // prettier-ignore
}

const listed = (names: string[]): string => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);

function commandLine(command: string): HTMLElement {
  const status = h("span.quiet", { role: "status" });
  const press = button("Copy", "Copy the command", async () => {
    status.textContent = (await copied(command))
      ? "Copied."
      : "This browser does not allow a file to copy: select the command and copy it.";
  });
  return h(
    "div.command",
    h(
      "pre",
      { tabindex: 0, "aria-label": "command" },
      h(
        "code",
        command.split(" ").flatMap((word, i) => [i > 0 && " ", h("span", word)]),
      ),
    ),
    press,
    status,
  );
}

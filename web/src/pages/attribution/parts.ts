// Parts: the logit as a sum of shares of heads and feed-forwards, beside the measured effect of setting each to 0.
import type { LogitShare } from "../../core/contract";
import { asPart, button, h } from "../../core/dom";
import { number, scientific } from "../../core/format";
import type { AttributionPage, Section } from "./page";
import { correlated, noun } from "./tokens";
import { ORDERS } from "./state";

const WORDS = { pass: "In the order of the model", size: "Largest first" } as const;

export function parts(page: AttributionPage): Section {
  const { record } = page;
  const all = record.parts ?? [];
  const atoms = noun(record) === "atom";
  const barred = all.filter(({ kind }) => !(atoms && kind === "offset")); // the energies of isolated atoms dwarf the others
  const most = Math.max(...barred.map(({ share }) => Math.abs(share)), ...all.map(({ removed }) => Math.abs(removed ?? 0)), 1e-300);
  const body = h("tbody");
  const controls = h("div.buttons", { role: "group", "aria-label": "Order of the parts" });
  const total = all.reduce((sum, { share }) => sum + share, 0);
  const element = asPart(
    "parts",
    h(
      "section.part",
      h("h2", atoms ? "What does each atom add?" : "Which parts of the model add to it? (direct logit attribution)"),
      h("p.quiet", record.parts_note ?? ""),
      all.length > 0 && [
        h("p", `The shares sum to ${number(total, 4)}, the ${record.metric} is ${number(record.value, 4)}: the difference is ${scientific(record.parts_error ?? 0)}, rounding. Rank correlation of the shares with the measured drop when ${atoms ? "each atom is removed" : "each head or feed-forward is set to 0"}: ${correlated(record.parts_correlation)}.`), // prettier-ignore
        controls,
        h(
          "div.scroll",
          { tabindex: 0, role: "region", "aria-label": "Shares of the parts" },
          h(
            "table.shares",
            h("thead", h("tr", ["part", `share of the ${record.metric}`, `measured drop when ${atoms ? "removed" : "set to 0"}`].map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
            body,
            h("tfoot", h("tr", h("th", { scope: "row" }, "sum"), h("td.number", number(total, 4)), h("td"))),
          ),
        ),
      ],
    ),
  );
  const cell = (value: number | null | undefined) =>
    value === null || value === undefined
      ? h("td.number.quiet", "–")
      : h("td.number", signed(value / most), h("span", number(value, 4)));
  return {
    element,
    draw() {
      const { order } = page.state;
      const focused = controls.contains(document.activeElement);
      controls.replaceChildren(
        ...ORDERS.map((name) =>
          button(WORDS[name], WORDS[name], () => page.set({ order: name }), { "aria-pressed": String(name === order) }),
        ),
      );
      if (focused) controls.querySelector<HTMLElement>('[aria-pressed="true"]')?.focus();
      const rows = order === "size" ? [...all].sort((a, b) => Math.abs(b.share) - Math.abs(a.share)) : all;
      body.replaceChildren(
        ...rows.map((one: LogitShare) =>
          h(
            "tr",
            { "data-kind": one.kind },
            h("th", { scope: "row" }, one.name),
            barred.includes(one) ? cell(one.share) : h("td.number", number(one.share, 4)),
            cell(one.removed === null || one.removed === undefined ? undefined : -one.removed),
          ),
        ),
      );
    },
  };
}

/** A bar from 0 to a share of the largest number, to the right for positive ones. */
const signed = (share: number): HTMLElement =>
  h("span.gauge", { "aria-hidden": "true" }, h(share < 0 ? "i.less" : "i", { style: `left:${50 + Math.min(0, share) * 50}%;width:${Math.abs(share) * 50}%` })); // prettier-ignore

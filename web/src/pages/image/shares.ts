// Shares of attention beside shares of the area: of the selected patch, and of each region's own patches.
import { h } from "../../core/dom";
import { LIES_ON, liesOn, ratio, type ImageDesk, type RegionShare } from "./desk";

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;

export function shares(desk: ImageDesk): { element: HTMLElement; draw(): void } {
  const one = h("div.scroll");
  const own = h("div.scroll");
  const regions = desk.record.regions ?? [];
  const element = h(
    "div.shares",
    { hidden: !regions.length },
    h("div", h("h3", "Of the selected patch"), one),
    h("div", h("h3", "Of each region, from its own patches"), own),
    h("p.quiet", `Patches were labelled by hand. Attention is said to lie on a region where its share is at least ${LIES_ON} times the region's share of the area.`), // prettier-ignore
  );
  return {
    element,
    draw() {
      if (!regions.length) return;
      one.replaceChildren(table(desk.shares()));
      own.replaceChildren(
        table(regions.map((region) => desk.shares(region.patches).find((share) => share.region === region)!)), // prettier-ignore
      );
    },
  };
}

function table(rows: RegionShare[]): HTMLElement {
  const heads = ["region", "area", "attention", "ratio", "lies on it"];
  return h(
    "table.share",
    h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text)))), // prettier-ignore
    h(
      "tbody",
      rows.map((row) =>
        h(
          "tr",
          { "data-region": row.region.name, "data-on": String(liesOn(row)) },
          h("th", { scope: "row" }, row.region.title),
          h("td", percent(row.area)),
          h("td", percent(row.attention)),
          h("td", `${ratio(row).toFixed(2)} ×`),
          h("td", { class: liesOn(row) ? "holds" : "quiet" }, liesOn(row) ? "✓ yes" : "– no"),
        ),
      ),
    ),
  );
}

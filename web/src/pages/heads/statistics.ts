// The statistics of all heads as a table: sorted by any column, some rows at a time, so that a page of many heads stays light.
import type { HeadStatistics } from "../../core/contract";
import { button, h } from "../../core/dom";
import { headName, layerGroups, number } from "./mosaic";
import type { HeadsPage } from "./page";
import { badge, presentFigures, type Figure, figure, ROLE_TEXT } from "./roles";
import { isRollout, own } from "./rollout";
import type { Role } from "./state";

const ROWS = 12;

interface Row {
  layer: number;
  head: number;
  found: HeadStatistics;
}

type Sort = { by: Figure | "place" | "role"; down: boolean };

/** Rows sorted by a column; heads without its statistic come last. */
export function sorted(rows: Row[], { by, down }: Sort): Row[] {
  const way = down ? -1 : 1;
  const place = (a: Row, b: Row) => a.layer - b.layer || a.head - b.head;
  if (by === "place") return [...rows].sort((a, b) => way * place(a, b));
  if (by === "role") return [...rows].sort((a, b) => way * a.found.role.localeCompare(b.found.role) || place(a, b));
  const known = rows.filter(({ found }) => found[by] != null);
  const unknown = rows.filter(({ found }) => found[by] == null);
  return [...known.sort((a, b) => way * (a.found[by]! - b.found[by]!) || place(a, b)), ...unknown];
}

export function statistics(page: HeadsPage): { element: HTMLElement; draw(): void } {
  const { record } = page;
  const every = () =>
    own(page.state.side === "other" && page.other ? page.other : record).flatMap(({ heads }, layer) =>
      heads.map((found, head) => ({ layer, head, found })),
    );
  const grouped = layerGroups(record);
  const figures = presentFigures(every().map(({ found }) => found));
  let sort: Sort = { by: "place", down: false };
  let shown = ROWS;
  const body = h("tbody");
  const more = h("div.buttons");
  const about = h("p.quiet.meaning", { role: "status" });
  const columns: { by: Sort["by"]; title: string; about: string }[] = [
    { by: "place", title: "head", about: "Heads in the order of the model." },
    { by: "role", title: "role", about: "The role that follows from the statistics." },
    ...figures.map(({ name, title, about }) => ({ by: name, title, about })),
  ];
  const heads = columns.map((column) => {
    const choose = () => {
      sort = { by: column.by, down: sort.by === column.by ? !sort.down : column.by !== "place" && column.by !== "role" };
      shown = ROWS;
      draw();
    };
    return { column, cell: h("th", { scope: "col" }, button(column.title, column.about, choose)) };
  });
  const draw = () => {
    const lit = every().filter(({ found }) => !page.state.roles.length || page.state.roles.includes(found.role));
    for (const { column, cell } of heads) {
      if (column.by === sort.by) cell.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    const { about: meaning } = columns.find(({ by }) => by === sort.by)!;
    about.textContent = `${meaning} Means over the queries that may attend to two or more keys${record.side_by_side ? `, in ${record.side_by_side.names[page.state.side === "other" ? 1 : 0]}` : ""}.`;
    const several = grouped.filter(({ layers }) => !isRollout(record, layers[0])).length > 1;
    body.replaceChildren(
      ...sorted(lit, sort)
        .slice(0, shown)
        .map(({ layer, head, found }) => {
          const open = page.state.open?.[0] === layer && page.state.open[1] === head;
          const title = headName(record, layer, head);
          const short = `${several ? `${grouped.find(({ layers }) => layers.includes(layer))!.short} ` : ""}L${number(grouped, layer)}H${head}`;
          return h(
            "tr",
            { "data-open": String(open) },
            h(
              "th",
              { scope: "row" },
              button(short, `Open ${title}`, () => page.open(layer, head), { "aria-label": `${short}: open ${title}` }),
            ),
            h("td", badge(found.role as Role)),
            figures.map(({ name }) =>
              h(
                "td",
                { style: name !== "distance" && found[name] != null ? `--share:${found[name]!.toFixed(3)}` : "--share:0" },
                figure(found, name),
              ),
            ),
          );
        }),
    );
    const press = (count: number) => () => {
      shown = count;
      draw();
    };
    more.replaceChildren(
      ...(lit.length > shown ? [button(`${Math.min(ROWS, lit.length - shown)} more`, "Show more rows", press(shown + ROWS))] : []),
      ...(shown > ROWS ? [button("Fewer", "Show the first rows only", press(ROWS))] : []),
      h("span.quiet", `${Math.min(shown, lit.length)} of ${lit.length} heads`),
    );
  };
  const element = h(
    "section.part.statistics",
    { "data-part": "statistics" },
    h("h2", "Statistics of each head"),
    about,
    h(
      "div.scroll",
      { tabindex: 0, role: "region", "aria-label": "statistics of heads" },
      h(
        "table",
        h("caption.spoken", "Statistics of heads"),
        h(
          "thead",
          h(
            "tr",
            heads.map(({ cell }) => cell),
          ),
        ),
        body,
      ),
    ),
    more,
    h(
      "details",
      h("summary", "What the columns and roles mean"),
      h(
        "dl.meanings",
        figures.map(({ title, about }) => h("div", h("dt", title), h("dd", about))),
        Object.entries(ROLE_TEXT).map(([role, { about }]) => h("div", h("dt", badge(role as Role)), h("dd", `It ${about}.`))),
      ),
    ),
  );
  return { element, draw };
}

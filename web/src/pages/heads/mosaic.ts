// All heads at once: a thumbnail of each head's weights, layers as rows, heads as columns, painted on one canvas. The colour is the
// role of the head. Self-attention and cross-attention stand in groups of their own.
import type { Heads, AttentionLayer } from "../../core/contract";
import { h } from "../../core/dom";
import { bytesOf } from "../../core/tensor";
import { shownSide, distanceSquare } from "./side_by_side";
import type { HeadsPage } from "./page";
import { colour, css, fitted, pixel, pixels, sized } from "../../charts/canvas";
import { figures, ROLE_TEXT } from "./roles";
import { thumbnail } from "./rounded";
import { isRollout, own, rolloutName } from "./rollout";
import { ROLES } from "./state";

const [GUTTER, TOP, HEADING, LARGE, SMALL] = [34, 18, 34, 104, 11]; // pixels
const [TALL, FAIR] = [660, 36]; // pixels: all layers fit into this height, unless their thumbnails would be smaller than FAIR

export interface Group {
  title: string;
  short: string; // where there is little room
  layers: number[]; // indices into the record's layers
}

/** Layers by the lines of their queries and keys, in the order of the record. */
export function layerGroups(record: Pick<Heads, "layers" | "sequences"> & Partial<Pick<Heads, "rollout">>): Group[] {
  const { layers, sequences } = record;
  const found = new Map<string, Group>();
  layers.forEach(({ query_sequence: asks, key_sequence: answers, cross }, index) => {
    const all = isRollout(record, index);
    const key = [asks, answers, cross, all].join();
    const [who, whom] = [asks, answers].map((line) => sequences[line]?.name || `line ${line + 1}`);
    const title = all
      ? `${who}: rollout, mean and maximum`
      : asks === answers && !cross
        ? `${who} self-attention`
        : `${who} → ${whom} cross-attention`;
    const short = all ? "rollout" : asks === answers && !cross ? who : `${who} → ${whom}`;
    if (!found.has(key)) found.set(key, { title, short, layers: [] });
    found.get(key)!.layers.push(index);
  });
  return [...found.values()];
}

/** The layer's number in its group, counted from 0. */
export const number = (all: Group[], layer: number): number =>
  all.find(({ layers }) => layers.includes(layer))!.layers.indexOf(layer);

/** "L2H4", with the group where there are several. */
export function headName(record: Heads, layer: number, head: number): string {
  if (isRollout(record, layer))
    return `${rolloutName(record, layer, head)}${(record.rollout?.length ?? 0) > 1 ? ` (${record.sequences[record.layers[layer].query_sequence].name})` : ""}`;
  return `${layerName(record, layer)}H${head}`;
}

/** "L2", with the group where there are several. */
export function layerName(record: Heads, layer: number): string {
  const all = layerGroups(record).filter(({ layers }) => !isRollout(record, layers[0]));
  const group = all.find(({ layers }) => layers.includes(layer))!;
  return `${all.length > 1 ? `${group.title} ` : ""}L${number(all, layer)}`;
}

export function mosaic(page: HeadsPage): { element: HTMLElement; draw(): void } {
  const { record } = page;
  const all = layerGroups(record);
  const heads = Math.max(...record.layers.map((layer) => layer.heads.length), 1);
  const rows = all.flatMap((group, at) => group.layers.map((layer, i) => ({ layer, at, first: i === 0, count: i })));
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const titles = all.length > 1 ? all.map(({ title }) => h("h3", title)) : [];
  const summary = h("output.summary", { "aria-live": "polite" });
  const field = h(
    "div.field",
    {
      tabindex: 0,
      role: "application",
      "aria-label": `${own(record).length} layers by ${heads} heads, counted from 0: arrow keys move, Enter opens a head`,
    },
    canvas,
    titles,
  );
  const element = h("div.mosaic", field, summary);
  const atlas = pictures(record);
  const others = page.other && pictures(page.other);
  let [cell, gap] = [0, 0];
  let cursor: [number, number] | undefined;

  const step = () => cell + gap;
  const top = (row: number) => TOP + row * step() + (titles.length ? (rows[row].at + 1) * HEADING : 0);
  const left = (head: number) => GUTTER + head * step();

  const draw = () => {
    const width = field.clientWidth;
    if (!width) return;
    const room = (width - GUTTER) / heads;
    cell = Math.max(SMALL, Math.min(LARGE, Math.floor(room * 0.93), Math.max(FAIR, Math.floor(TALL / rows.length))));
    gap = Math.max(1, Math.min(8, Math.floor(room) - cell));
    const wide = GUTTER + heads * step();
    const context = sized(canvas, wide, rows.length ? top(rows.length - 1) + step() : TOP);
    const [quiet, ink, focus, empty] = ["--quiet", "--ink", "--focus", "--empty"].map(css);
    context.font = `11px ${css("--sans")}`;
    context.textBaseline = "middle";
    rows.forEach(({ layer, at, first, count }, row) => {
      if (first && titles.length) titles[at].style.top = `${top(row) - HEADING - (at ? 0 : TOP - 4)}px`;
      const y = top(row);
      context.fillStyle = quiet;
      context.textAlign = "right";
      if (!isRollout(record, layer) && (cell >= 14 || count % 2 === 0)) context.fillText(`L${count}`, GUTTER - 8, y + cell / 2);
      record.layers[layer].heads.forEach((head, i) => {
        const lit = !page.state.roles.length || page.state.roles.includes(head.role);
        context.fillStyle = empty;
        context.fillRect(left(i), y, cell, cell);
        context.globalAlpha = lit ? 1 : 0.13;
        const which = shownSide(page, layer);
        if (page.other && page.state.side === "difference") {
          distanceSquare(context, record.side_by_side!.total_variation[layer]?.[i], [left(i), y], cell, ink);
          context.globalAlpha = 1;
          return;
        }
        const { image, left: from, side } = (which === "other" && others ? others : atlas)(layer, i);
        context.imageSmoothingEnabled = side > cell;
        context.imageSmoothingQuality = "high";
        context.drawImage(image, from, 0, side, side, left(i), y, cell, cell);
        context.globalAlpha = 1;
      });
    });
    context.fillStyle = quiet;
    context.textAlign = "center";
    const every = Math.ceil(22 / step());
    for (let i = 0; i < heads; i += every)
      context.fillText(`H${i}`, left(i) + cell / 2, titles.length ? TOP + HEADING - 9 : TOP - 9);
    const frame = (place: [number, number] | undefined, stroke: string, thick: number) => {
      const row = place ? rows.findIndex(({ layer }) => layer === place[0]) : -1;
      if (!place || row < 0) return;
      context.strokeStyle = stroke;
      context.lineWidth = thick;
      context.strokeRect(left(place[1]) - thick / 2, top(row) - thick / 2, cell + thick, cell + thick);
    };
    frame(cursor, focus, 2);
    frame(page.state.open, ink, 3);
    tell();
  };

  const tell = () => {
    const place = cursor ?? page.state.open;
    if (!place) {
      summary.replaceChildren(
        h("span.quiet", "Each square shows the weights of a head: rows are queries, columns are keys. Choose one."),
      );
      return;
    }
    const [layer, head] = place;
    const found = (shownSide(page, layer) === "other" ? page.other! : record).layers[layer].heads[head];
    const counted = figures(found);
    const far = record.side_by_side?.total_variation[layer]?.[head];
    summary.replaceChildren(
      h("b", sentence(headName(record, layer, head))),
      " ",
      h("span.role", { "data-role": found.role }, ROLE_TEXT[found.role].title),
      far === undefined ? "" : ` distance ${far.toFixed(2)}.`,
      h("span.quiet", counted ? ` ${counted}.` : "", record.layers[layer].reason ? ` ${record.layers[layer].reason}` : ""),
    );
  };

  const under = (event: MouseEvent): [number, number] | undefined => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const head = Math.floor((x - GUTTER) / step());
    const row = rows.findIndex((_, i) => y >= top(i) && y < top(i) + step());
    return row >= 0 && head >= 0 && head < record.layers[rows[row].layer].heads.length ? [rows[row].layer, head] : undefined;
  };
  const point = (place: [number, number] | undefined) => {
    if (place?.join() === cursor?.join()) return;
    cursor = place;
    draw();
  };
  field.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(under(event)));
  field.addEventListener("pointerleave", () => document.activeElement !== field && point(undefined));
  field.addEventListener("blur", () => point(undefined));
  field.addEventListener("click", (event) => {
    const place = under(event);
    if (!place) return;
    point(place);
    page.open(...place);
  });
  field.addEventListener(
    "focus",
    () => field.matches(":focus-visible") && !cursor && rows.length && point(page.state.open ?? [rows[0].layer, 0]),
  );
  field.addEventListener("keydown", (event) => {
    if (!rows.length) return;
    const [layer, head] = cursor ?? page.state.open ?? [rows[0].layer, 0];
    const row = rows.findIndex((one) => one.layer === layer);
    const count = (at: number) => record.layers[rows[at].layer].heads.length;
    const to: Record<string, [number, number]> = {
      ArrowLeft: [row, head - 1],
      ArrowRight: [row, head + 1],
      ArrowUp: [row - 1, head],
      ArrowDown: [row + 1, head],
      Home: [row, 0],
      End: [row, count(row) - 1],
      PageUp: [0, head],
      PageDown: [rows.length - 1, head],
    };
    if (event.key === "Enter" || event.key === " ") page.open(layer, head);
    else if (event.key === "Escape") point(undefined);
    else if (to[event.key]) {
      const next = Math.max(0, Math.min(rows.length - 1, to[event.key][0]));
      point([rows[next].layer, Math.max(0, Math.min(count(next) - 1, to[event.key][1]))]);
    } else return;
    event.preventDefault();
  });
  fitted(field, draw);
  return { element, draw };
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Thumbnails of heads, an image for each layer: painted on demand, and again when the colours change. */
function pictures(record: Heads): (layer: number, head: number) => { image: HTMLCanvasElement; left: number; side: number } {
  const strips = new Map<AttentionLayer, { image: HTMLCanvasElement; colours: string }>();
  return (layer, head) => {
    const found = record.layers[layer];
    const side = Math.max(found.thumbnail_side, 1);
    const colours = ROLES.map((role) => css(`--${role}`)).join();
    if (strips.get(found)?.colours !== colours) strips.set(found, { image: strip(found, side), colours });
    return { image: strips.get(found)!.image, left: head * side, side };
  };
}

/** The thumbnails of a layer's heads. */
function strip(
  { thumbnail: small, tensors: numbers, thumbnail_side: side, heads }: AttentionLayer,
  wide: number,
): HTMLCanvasElement {
  const image = pixels(wide * Math.max(heads.length, 1), wide);
  const data = new ImageData(image.width, image.height);
  const spelled = !small && Boolean(numbers?.encoded_weights?.length);
  const [bytes, size] = [bytesOf(small), side * side];
  heads.forEach(({ role }, head) => {
    const paint = colour(`--${role}`);
    const values = spelled ? thumbnail(numbers!, head, side) : bytes.subarray(head * size, (head + 1) * size);
    values.forEach((value, i) =>
      pixel(data.data, Math.floor(i / side) * image.width + head * side + (i % side), paint, value / 255),
    );
  });
  image.getContext("2d")!.putImageData(data, 0, 0);
  return image;
}

/** A button for each role, with the number of its heads; pressed roles are lit. */
export function legend(page: HeadsPage): { element: HTMLElement; draw(): void } {
  const counts = new Map(
    ROLES.map((role) => [
      role,
      own(page.record)
        .flatMap(({ heads }) => heads)
        .filter((head) => head.role === role).length,
    ]),
  );
  const element = h("div.legend", { role: "group", "aria-label": "which heads are lit" });
  const buttons = ROLES.filter((role) => counts.get(role)).map((role) => {
    const press = () => {
      const { roles } = page.state;
      page.set({ roles: roles.includes(role) ? roles.filter((one) => one !== role) : [...roles, role] });
    };
    return {
      role,
      button: h(
        "button",
        { type: "button", "data-role": role, title: `Heads of this role: each ${ROLE_TEXT[role].about}`, onclick: press },
        h("i"),
        ROLE_TEXT[role].title,
        h("span", String(counts.get(role))),
      ),
    };
  });
  element.append(...buttons.map(({ button }) => button));
  const draw = () => {
    for (const { role, button } of buttons) button.setAttribute("aria-pressed", String(page.state.roles.includes(role)));
  };
  return { element, draw };
}

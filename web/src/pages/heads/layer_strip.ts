// One query in every head of a layer at once: thumbnails of the picture, lit where the weights are large. For a class token these are
// its attention maps. A click opens the head.
import { digits } from "../../core/format";
import type { TokenSequence } from "../../core/contract";
import { h } from "../../core/dom";
import { interventionsOf } from "./changes";
import type { View } from "./detail";
import { named, visible } from "../../core/labels";
import type { HeadsPage } from "./page";
import { colour, pixel, pixels, sized } from "../../charts/canvas";
import { Attention, largest } from "./weights";

const SIDE = 116; // pixels of the longer side

/** How strongly each patch is lit, 0 to 1: the root of its weight over the largest on a patch; and the share of weight on patches. */
export function patchTint(weights: ArrayLike<number>, before: number): { share: number; strengths: number[] } {
  const own = Array.from(weights).slice(before);
  const most = Math.max(...own, 0);
  return {
    share: own.reduce((sum, weight) => sum + weight, 0),
    strengths: own.map((weight) => (most ? Math.sqrt(weight / most) : 0)),
  };
}

export function strip(page: HeadsPage): { element: HTMLElement; draw(view: View, row: number): void } {
  const title = h("span");
  const heads = h("div.strip", { role: "group", "aria-label": "the same query in every head of this layer" });
  const element = h("div");
  const details = h<HTMLDetailsElement>("details.layer-strip", { open: true, ontoggle: () => last && draw(...last) }, h("summary", title), heads, h("p.quiet", "Beside each head: the share of the weight on patches. The brightest patch has the head's largest weight.")); // prettier-ignore
  const attentions = new Map<number, Attention>();
  const photo = new Image();
  let [kept, filling] = ["", 0];
  let last: [View, number] | undefined;
  let places: { canvas: HTMLCanvasElement; caption: HTMLElement; press: HTMLButtonElement }[] = [];
  photo.addEventListener("load", () => last && draw(...last));

  function draw(view: View, row: number): void {
    const { asks: line, layer, found, same, against, models } = view;
    last = [view, row];
    if (line.kind !== "patches" || !line.grid?.length || !same || against || models) return element.replaceChildren();
    if (!element.firstChild) element.append(details);
    title.replaceChildren("What ", named(line, row), ` attends to in each of the ${found.heads.length} heads of this layer`);
    if (!details.open) return;
    if (/^data:image\//.test(line.picture ?? "") && photo.src !== line.picture) photo.src = line.picture!;
    const changes = found.heads.map((_, head) => interventionsOf(page.state, layer, head, found.key_sequence));
    const next = JSON.stringify([layer, changes]);
    if (next !== kept) {
      kept = next;
      attentions.clear();
      build(view);
    }
    places.forEach(({ press }, head) => press.setAttribute("aria-pressed", String(head === view.head)));
    void fill(view, row, ++filling);
  }

  function build({ layer, found }: View): void {
    places = found.heads.map((_, head) => {
      const [canvas, caption] = [h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" }), h("span")];
      const press = h<HTMLButtonElement>("button", { type: "button", onclick: () => page.set({ open: [layer, head] }) }, canvas, caption); // prettier-ignore
      return { canvas, caption, press };
    });
    heads.replaceChildren(...places.map(({ press }) => press));
  }

  /** One head after the other; a newer call ends this one. */
  async function fill({ layer, asks: line, found }: View, row: number, mine: number): Promise<void> {
    for (let head = 0; head < found.heads.length; head++) {
      if (!attentions.has(head)) {
        const given = page.more.ready(layer, head) ?? (await page.more.get(layer, head).catch(() => undefined));
        if (mine !== filling || !given) return;
        attentions.set(head, new Attention(given, interventionsOf(page.state, layer, head, found.key_sequence)));
      }
      paint(line, head, attentions.get(head)!.row(Math.min(row, attentions.get(head)!.given.rows - 1)));
    }
  }

  function paint(line: TokenSequence, head: number, weights: Float64Array): void {
    const [rows, columns] = line.grid!;
    const before = line.prefix_tokens ?? 0;
    const { canvas, caption, press } = places[head];
    const { share, strengths } = patchTint(weights, before);
    const [width, height] = [Math.min(SIDE, (SIDE * columns) / rows), Math.min(SIDE, (SIDE * rows) / columns)];
    const context = sized(canvas, width, height);
    const seen = photo.complete && photo.naturalWidth > 0;
    if (seen) context.drawImage(photo, 0, 0, width, height);
    const data = new ImageData(columns, rows);
    const paper = colour(seen ? "--paper" : "--role");
    strengths.forEach((strength, i) => pixel(data.data, i, paper, seen ? 0.9 * (1 - strength) : 0.85 * strength));
    const small = pixels(columns, rows);
    small.getContext("2d")!.putImageData(data, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, width, height);
    const at = before + largest(weights.slice(before));
    const text = `H${head} · ${share.toFixed(2)}`;
    if (caption.textContent !== text) caption.textContent = text;
    const about = `H${head}: ${share.toFixed(2)} of the weight on patches, most on ${visible(line.labels[at], at)}, ${digits(weights[at])}`;
    press.title = about;
    press.setAttribute("aria-label", about);
  }

  return { element, draw };
}

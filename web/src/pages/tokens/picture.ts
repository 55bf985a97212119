// A picture as tokens: its grid of patches, one of them enlarged, and the cost of other tokenizations.
import type { PictureCut, PictureTokens } from "../../core/contract";
import { h } from "../../core/dom";
import { css, fitted, pixels as blank, sized } from "../../charts/canvas";
import { box } from "./patch";
import { Pixels } from "./tubelets";
import { boxed, cells, step } from "./cells";
import { counts, whole } from "./counts";
import { heading, type Section, type Tell } from "./section";
import { within } from "./state";

export const called = ({ kind: way, side }: PictureCut): string =>
  way === "patches" ? `patches of ${side}×${side}` : way === "stem" ? `stem, every ${side} pixels` : "pixels";

export function picture(record: PictureTokens, tell: Tell): Section {
  const [high, wide] = record.size;
  const pixels = new Pixels([1, high, wide], record.pixels);
  const image = blank(wide, high);
  image.getContext("2d")!.putImageData(pixels.image(0), 0, 0);
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const [frame, own] = [h("i.frame"), h("i.frame.own")];
  const photo = h("div.photo", { tabindex: 0, role: "application", style: `aspect-ratio:${wide}/${high};width:min(100%, ${Math.round((wide / high) * 448)}px)` }, canvas, frame, own); // prettier-ignore
  const ways = h("div.switch", { role: "group", "aria-label": "tokenization" });
  const summary = h("p.summary", { "aria-live": "polite" });
  const one = box(pixels, (number) => tell.set({ number }), (token) => tell.set({ token, number: 0 })); // prettier-ignore
  const field = h("section.token.field-of");
  const table = counts("Tokenizations of this picture");
  const element = h(
    "div.kind",
    h("section.part", { "data-part": "picture" }, heading(record.name, "picture"), record.note && h("p.quiet", record.note), ways, summary, h("div.beside", h("div", photo), h("div.one", one.element, field)), one.maps), // prettier-ignore
    table.element,
  );
  const now = () => record.cuts[within(tell.now().cut, record.cuts.length, 0)];
  const tokenNow = (cut: PictureCut) => {
    const [rows, columns] = cut.grid;
    return within(tell.now().token, rows * columns, Math.floor(rows / 2) * columns + Math.floor(columns / 2));
  };

  /** Another tokenization, with the token at the same location. */
  const take = (cut: number): void => {
    const [before, after, token] = [now(), record.cuts[cut], tokenNow(now())];
    const at = (i: number) => (i + 0.5) * before.side;
    const [rows, columns] = after.grid;
    const row = Math.min(rows - 1, Math.floor(at(Math.floor(token / before.grid[1])) / after.side));
    const column = Math.min(columns - 1, Math.floor(at(token % before.grid[1]) / after.side));
    tell.set({ cut, token: row * columns + column, number: 0 });
  };

  const under = (event: MouseEvent): number | undefined => {
    const [b, cut] = [photo.getBoundingClientRect(), now()];
    const row = Math.floor((((event.clientY - b.top) / b.height) * high) / cut.side);
    const column = Math.floor((((event.clientX - b.left) / b.width) * wide) / cut.side);
    return row >= 0 && column >= 0 && row < cut.grid[0] && column < cut.grid[1] ? row * cut.grid[1] + column : undefined;
  };
  photo.addEventListener("click", (event) => {
    const token = under(event);
    if (token !== undefined) tell.set({ token, number: 0 });
  });
  photo.addEventListener("keydown", (event) => {
    const cut = now();
    const to = step(event.key, tokenNow(cut), cut.grid[1], cut.grid[0] * cut.grid[1]);
    if (to === undefined) return;
    event.preventDefault();
    tell.set({ token: to, number: 0 });
  });

  function paint(): void {
    const width = photo.clientWidth;
    if (!width) return;
    const [cut, tall] = [now(), (width * high) / wide];
    const context = sized(canvas, width, tall);
    context.imageSmoothingEnabled = width < wide;
    context.drawImage(image, 0, 0, width, tall);
    const apart = (width * cut.side) / wide;
    if (apart < 4) return; // pixels: the grid would hide them
    context.strokeStyle = css("--card");
    context.globalAlpha = 0.75;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 1; i < cut.grid[1]; i++) line(context, i * apart, 0, i * apart, tall);
    for (let i = 1; i < cut.grid[0]; i++) line(context, 0, i * apart, width, i * apart);
    context.stroke();
    context.globalAlpha = 1;
  }
  fitted(photo, paint);

  return {
    element,
    draw() {
      const cut = now();
      const [rows, columns] = cut.grid;
      const token = tokenNow(cut);
      const [row, column] = [Math.floor(token / columns), token % columns];
      ways.replaceChildren(
        ...record.cuts.map((each, i) => h("button", { type: "button", "aria-pressed": String(each === cut), onclick: () => take(i) }, each.kind === "patches" ? `${each.side}×${each.side}` : each.kind)), // prettier-ignore
      );
      summary.textContent = `${rows} × ${columns} = ${whole(rows * columns)} tokens of ${whole(cut.numbers)} numbers: ${description(cut)}`;
      photo.setAttribute("aria-label", `${record.name}, ${rows} by ${columns} tokens. Arrow keys select one.`);
      const [[top, bottom], [left, right]] = [cut.rows[row], cut.columns[column]];
      frame.style.cssText = boxed(top, left, bottom - top, right - left, high, wide);
      own.hidden = cut.kind !== "stem";
      own.style.cssText = boxed(row * cut.side, column * cut.side, cut.side, cut.side, high, wide);
      const title = `Token ${whole(token)}`;
      const where = `Its position is (${row}, ${column}): row and column.`;
      const plain = cut.kind !== "stem";
      one.element.hidden = one.maps.hidden = !plain;
      field.hidden = plain;
      if (plain) {
        const number = within(tell.now().number, cut.numbers, 0);
        one.draw({ size: [1, cut.side, cut.side], begins: [0, top, left], grid: [1, rows, columns], token, number, title, where, mapped: cut.projection, outputs: record.outputs, what: `A convolution with the kernel W and a stride of ${cut.side} pixels` }); // prettier-ignore
      } else field.replaceChildren(...stem(cut, title, where, [row, column], [top, bottom, left, right]));
      table.draw(record.cuts.map((each, i) => ({ name: called(each), tokens: each.grid[0] * each.grid[1], numbers: each.numbers, pressed: each === cut, pick: () => take(i) }))); // prettier-ignore
      paint();
    },
  };

  /** A token of the stem: its receptive field, and the overlap with those of its neighbours. */
  function stem(
    cut: PictureCut,
    title: string,
    where: string,
    [row, column]: number[],
    [top, bottom, left, right]: number[],
  ): Node[] {
    const [tall, broad] = [bottom - top, right - left];
    const shown = cells("div.sheet", { pick: () => undefined });
    shown.draw({
      rows: tall,
      columns: broad,
      side: Math.max(4, Math.floor(300 / broad)),
      label: `The ${tall} by ${broad} pixels in the token's receptive field.`,
      colour: (i) => [0, 1, 2].map((c) => pixels.byte(0, top + Math.floor(i / broad), left + (i % broad), c)) as [number, number, number], // prettier-ignore
    });
    const readers = (ends: number[][], from: number, to: number) => ends.filter(([a, b]) => a <= from && b >= to).length;
    const middle = (ends: number[], i: number) => Math.min(ends[1] - 1, i * cut.side + Math.floor(cut.side / 2));
    const [y, x] = [middle(cut.rows[row], row), middle(cut.columns[column], column)];
    const many = readers(cut.rows, y, y + 1) * readers(cut.columns, x, x + 1);
    return [
      h("h3", title),
      h("p.where", where),
      shown.element,
      h("p", `Its receptive field has ${tall}×${broad} = ${whole(tall * broad)} pixels, and the tokens are ${cut.side} pixels apart: the pixel in its middle is in the receptive field of ${many === 1 ? "this token alone" : `${many} tokens`}.`), // prettier-ignore
      h("p.quiet", `Four 3×3 convolutions with stride 2. Patches do not overlap; these receptive fields do, so that no border cuts through an object. Its ${cut.numbers} numbers are learned, so there are none before training.`), // prettier-ignore
    ];
  }
}

const line = (context: CanvasRenderingContext2D, a: number, b: number, c: number, d: number): void => {
  context.moveTo(a, b);
  context.lineTo(c, d);
};

function description({ kind: way, side }: PictureCut): string {
  if (way === "pixels") return "one pixel each, at a quadratic cost of attention.";
  if (way === "stem") return "their receptive fields (the larger frame) overlap.";
  return `each is a square of ${side}×${side} pixels, red, green and blue.`;
}

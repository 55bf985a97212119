// Patches on their picture: it is lit where the weights are large. Prefix tokens (class token, registers) stand beside it.
import type { TokenSequence } from "../../core/contract";
import { h } from "../../core/dom";
import { front } from "./prefix_tokens";
import { type LineView, type Listener, tintScale, type Shown } from "./lines";
import { colour, fitted, pixel, pixels, sized } from "../../charts/canvas";

const LARGE = 520; // pixels, at most, of the longer side

export function patches(line: TokenSequence, label: string, listener: Listener): LineView {
  const [rows, columns] = line.grid!;
  const [before, cells] = [line.prefix_tokens ?? 0, rows * columns];
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const [frame, other] = [h("i.frame"), h("i.frame.other")];
  const wide = Math.min(LARGE, (LARGE * columns) / rows);
  const field = h(
    "div.photo",
    {
      tabindex: 0,
      role: "application",
      "aria-label": `${label}: ${rows} by ${columns} patches, arrow keys choose`,
      style: `--wide:${wide}px;aspect-ratio:${columns}/${rows}`,
    },
    line.picture && /^data:image\//.test(line.picture)
      ? h("img", { src: line.picture, alt: "the input picture", draggable: "false" })
      : false,
    canvas,
    frame,
    other,
  );
  const tokens = front(line, listener, "prefix tokens");
  const element = h("div.patches", tokens.element, field);
  const image = pixels(columns, rows);
  let now: Shown = { signed: false, hidden: [] };

  const draw = () => {
    const [width, height] = [field.clientWidth, field.clientHeight];
    if (!width) return;
    const scale = tintScale(now);
    const own = tintScale({ ...now, weights: now.weights?.subarray(before) }); // the weight on prefix tokens does not dim the patches
    const out = new Set(now.hidden);
    const data = new ImageData(columns, rows);
    const [more, less, veil] = [colour(now.signed ? "--positive" : "--role"), colour("--negative"), colour("--paper")];
    const lit = Boolean(line.picture) && !now.signed;
    for (let i = 0; i < cells; i++) {
      const value = own.of(i);
      if (out.has(before + i)) pixel(data.data, i, veil, 1);
      else if (lit) pixel(data.data, i, veil, now.weights ? 0.9 * (1 - Math.abs(value)) : 0);
      else pixel(data.data, i, value < 0 ? less : more, Math.abs(value) * 0.85);
    }
    image.getContext("2d")!.putImageData(data, 0, 0);
    const context = sized(canvas, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, 0, 0, width, height);
    for (const [box, at] of [
      [frame, now.chosen],
      [other, now.other],
    ] as const) {
      const i = (at ?? -1) - before;
      box.hidden = !(i >= 0 && i < cells);
      box.style.cssText = `left:${(100 * (i % columns)) / columns}%;top:${(100 * Math.floor(i / columns)) / rows}%;width:${100 / columns}%;height:${100 / rows}%`;
    }
    tokens.draw(scale.of, now);
  };
  const under = (event: MouseEvent) => {
    const box = field.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return row >= 0 && column >= 0 && row < rows && column < columns ? before + row * columns + column : undefined;
  };
  field.addEventListener("pointermove", (event) => event.pointerType !== "touch" && listener.point(under(event)));
  field.addEventListener("pointerleave", () => listener.point(undefined));
  field.addEventListener("click", (event) => {
    const found = under(event);
    if (found !== undefined) listener.pick(found);
  });
  field.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (by === undefined) return;
    const at = (now.chosen ?? now.other ?? before) - before;
    const to = at < 0 ? 0 : at + by;
    if (to >= 0 && to < cells) listener.pick(before + to);
    event.preventDefault();
  });
  fitted(field, draw);
  return {
    element,
    draw(shown) {
      now = shown;
      draw();
    },
  };
}

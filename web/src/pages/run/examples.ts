// The fixed examples: the model's output for each after a step, and the target beside it.
import type { Sample } from "../../core/contract";
import { h } from "../../core/dom";
import { unpack } from "../../core/tensor";
import type { History } from "./history";

export function exampleList(history: History, step: number): HTMLElement {
  const found = history.samplesAt(step);
  const known = found.some(({ target: wanted }) => wanted !== null && wanted !== undefined);
  return h("div.samples", found.map((sample) => (known ? compared(sample, history) : continued(sample)))); // prettier-ignore
}

/** A prompt and its continuation. */
const continued = ({ prompt: given, answer }: Sample): HTMLElement =>
  h("blockquote.continued", { dir: "auto" }, h("span.prompt", given.replace(/^\n+/, "")), h("span.output", answer));

/** Input, output and target. */
function compared({ prompt: given, answer, target: wanted }: Sample, history: History): HTMLElement {
  const bare = answer.replace(/ \(\d+\s?%\)$/, "").trim(); // without the probability of a class
  const right = wanted !== null && wanted !== undefined && bare === wanted.trim();
  const seen = history.picture(given);
  return h(
    "dl.compared",
    { "data-right": String(right) },
    h("div", h("dt", "input"), h("dd", { dir: "auto" }, seen && picture(seen, given), given)),
    h("div", h("dt", "output"), h("dd.output", { dir: "auto" }, answer || "(empty)", right && h("b.right", "correct"))),
    h("div", h("dt", "target"), h("dd", { dir: "auto" }, wanted ?? "–")),
  );
}

/** An input picture, grey or RGB, 0 to 255. */
export function picture(array: NonNullable<Sample["picture"]>, name: string): HTMLCanvasElement {
  const { shape, data } = unpack(array);
  const [rows, columns, colours = 1] = shape;
  const canvas = h<HTMLCanvasElement>("canvas.picture", { width: columns, height: rows, role: "img", "aria-label": name });
  const image = new ImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const at = (c: number) => data[i * colours + (colours > 1 ? c : 0)];
    image.data.set([at(0), at(1), at(2), 255], 4 * i);
  }
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}

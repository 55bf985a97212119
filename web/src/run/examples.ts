// The fixed examples: what the model made of each after a step, and the right answer beside it.
import type { Sample } from "../contract";
import { h } from "../dom";
import { unpack } from "../tensor";
import type { History } from "./history";

export function answers(history: History, step: number): HTMLElement {
  const found = history.answers(step);
  const known = found.some(({ wanted }) => wanted !== null && wanted !== undefined);
  return h("div.answers", found.map((sample) => (known ? compared(sample, history) : continued(sample)))); // prettier-ignore
}

/** A text that goes on. */
const continued = ({ given, answer }: Sample): HTMLElement =>
  h("blockquote.continued", { dir: "auto" }, h("span.given", given.replace(/^\n+/, "")), h("span.answer", answer));

/** A question, its answer, the right answer. */
function compared({ given, answer, wanted }: Sample, history: History): HTMLElement {
  const bare = answer.replace(/ \(\d+\s?%\)$/, "").trim(); // a class comes with its probability
  const right = wanted !== null && wanted !== undefined && bare === wanted.trim();
  const seen = history.picture(given);
  return h(
    "dl.compared",
    { "data-right": String(right) },
    h("div", h("dt", "given"), h("dd", { dir: "auto" }, seen && picture(seen, given), given)),
    h("div", h("dt", "answer"), h("dd.answer", { dir: "auto" }, answer || "(nothing)", right && h("b.right", "right"))),
    h("div", h("dt", "wanted"), h("dd", { dir: "auto" }, wanted ?? "–")),
  );
}

/** What was given, where it is a picture: 0 to 255, grey or red, green, blue. */
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

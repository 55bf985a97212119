// What attention adds: every patch painted in its own mean colour, and in what it receives; the numbers of the selected one.
import { pixels } from "../../charts/canvas";
import { h } from "../../core/dom";
import { step } from "../../widgets/matrix";
import type { ImageDesk } from "./desk";
import { line } from "./rows";

export function added(desk: ImageDesk): { element: HTMLElement; draw(): void } {
  const { record } = desk;
  const [rows, columns] = record.grid;
  const painted = ["features", "added"].map((role) => {
    const canvas = pixels(columns, rows);
    canvas.setAttribute("aria-hidden", "true");
    canvas.className = "mosaic";
    canvas.style.aspectRatio = `${columns}/${rows}`;
    const chosen = h("i.chosen");
    const what = role === "features" ? "each patch in its mean colour" : "each patch in the mean colour of what it attends to";
    const frame = h("div.frame", { tabindex: 0, role: "application", "aria-label": `${what}: arrow keys select a patch` }, canvas, chosen); // prettier-ignore
    frame.addEventListener("keydown", (event) => {
      const to = step(event.key, desk.state.patch, columns, desk.patches);
      if (to === undefined) return;
      event.preventDefault();
      desk.choose(to);
    });
    frame.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
      const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
      if (row >= 0 && column >= 0 && row < rows && column < columns) desk.choose(row * columns + column);
    });
    return { role, canvas, frame, chosen };
  });
  const titles = { features: ["E", "each patch in its own colour"], added: ["ΔE", "each patch in what it receives"] };
  const lines = [
    line(desk, "features", "E", "the features of the selected patch", record.features),
    line(desk, "added", "ΔE", "what attention adds: the mean of all patches' features, by its weights"),
    line(desk, "output", "E + ΔE", "what the next layer reads"),
  ];
  const element = h(
    "div.added",
    h(
      "div.mosaics",
      painted.map(({ role, frame }) => {
        const [letters, text] = titles[role as keyof typeof titles];
        return h("figure", frame, h("figcaption", h("i.sym", letters), ` ${text}`));
      }),
    ),
    h("div.lines", lines.map(({ element }) => element)), // prettier-ignore
  );
  return {
    element,
    draw() {
      for (const { role, canvas, chosen } of painted) {
        const [row, column] = [Math.floor(desk.state.patch / columns), desk.state.patch % columns];
        chosen.style.cssText = `top:${(100 * row) / rows}%;left:${(100 * column) / columns}%;height:${100 / rows}%;width:${100 / columns}%`;
        const { data, shape } = desk.value(role);
        const wide = shape.at(-1)!;
        const image = new ImageData(columns, rows);
        for (let patch = 0; patch < desk.patches; patch++) {
          for (let c = 0; c < 3; c++)
            image.data[4 * patch + c] = Math.round(255 * Math.min(Math.max(data[patch * wide + c], 0), 1));
          image.data[4 * patch + 3] = 255;
        }
        canvas.getContext("2d")!.putImageData(image, 0, 0);
      }
      for (const { draw } of lines) draw();
    },
  };
}

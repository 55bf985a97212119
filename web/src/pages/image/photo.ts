// The photograph under a grid of patches. A patch is as clear as it is attended to; arrow keys move from patch to patch.
import { fitted, pixels, sized } from "../../charts/canvas";
import { h } from "../../core/dom";
import { step } from "../../widgets/matrix";
import type { ImageDesk } from "./desk";

/** The photograph, from the numbers of the program. */
export function photograph(desk: ImageDesk): HTMLCanvasElement {
  const [high, wide] = desk.record.size;
  const { side } = desk.record;
  const bytes = desk.value("bytes").data;
  const canvas = pixels(wide, high);
  const image = new ImageData(wide, high);
  const area = side * side;
  for (let patch = 0; patch < desk.patches; patch++) {
    const [top, left] = [Math.floor(patch / desk.columns) * side, (patch % desk.columns) * side];
    for (let i = 0; i < area; i++) {
      const at = 4 * ((top + Math.floor(i / side)) * wide + left + (i % side));
      for (let c = 0; c < 3; c++) image.data[at + c] = bytes[(patch * 3 + c) * area + i];
      image.data[at + 3] = 255;
    }
  }
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}

export function photo(desk: ImageDesk, image: HTMLCanvasElement): { element: HTMLElement; draw(): void } {
  const { record } = desk;
  const [rows, columns] = record.grid;
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const cells = Array.from({ length: desk.patches }, (_, patch) =>
    h("div.patch", { role: "gridcell", tabindex: -1, "data-patch": patch }),
  );
  const grid = h(
    "div.patches",
    { role: "grid", "aria-label": "the photograph, cut into patches: arrow keys select one", style: `--columns:${columns}` },
    Array.from({ length: rows }, (_, r) => h("div.patch-row", { role: "row" }, cells.slice(r * columns, (r + 1) * columns))),
  );
  const frame = h("div.photo", { style: `aspect-ratio:${record.size[1]}/${record.size[0]}` }, canvas, grid);
  const caption = h("p.reading", { role: "status" });
  const veil = h<HTMLInputElement>("input", { type: "checkbox", onchange: () => desk.set({ veil: veil.checked }) }); // prettier-ignore
  const choice = h("label.choice.veil", veil, h("span", "veil what the selected patch does not attend to"));
  const element = h("div.photograph", frame, caption, choice);

  const under = (event: Event): number | undefined => {
    const found = (event.target as HTMLElement).closest<HTMLElement>(".patch")?.dataset.patch;
    return found === undefined ? undefined : Number(found);
  };
  let hovered: number | undefined;
  grid.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    hovered = under(event);
    desk.point(hovered === undefined || !desk.state.veil ? undefined : { run: desk.run, id: desk.id("weights"), index: desk.index(desk.id("weights"), desk.state.patch, hovered) }); // prettier-ignore
    tell();
  });
  grid.addEventListener("pointerleave", () => {
    hovered = undefined;
    desk.point(undefined);
    tell();
  });
  grid.addEventListener("click", (event) => {
    const patch = under(event);
    if (patch !== undefined) cells[patch].focus();
  });
  grid.addEventListener("focusin", (event) => {
    const patch = under(event);
    if (patch !== undefined) desk.choose(patch);
  });
  grid.addEventListener("keydown", (event) => {
    const patch = under(event);
    if (patch === undefined || event.ctrlKey || event.metaKey) return;
    const to = step(event.key, patch, columns, desk.patches);
    if (to === undefined) return;
    event.preventDefault();
    cells[to].focus();
  });
  fitted(frame, () => {
    const width = frame.clientWidth;
    if (!width) return;
    const context = sized(canvas, width, (width * record.size[0]) / record.size[1]);
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, (width * record.size[0]) / record.size[1]);
  });

  const called = (patch: number): string => {
    const region = desk.regionOf(patch);
    return `patch ${desk.place(patch)}${region ? `, ${region.title}` : ""}`;
  };

  function tell(): void {
    const weights = desk.row("weights");
    const of = hovered ?? desk.state.patch;
    const percent = `${(weights[of] * 100).toFixed(2)} %`;
    caption.textContent = !desk.state.veil
      ? `Selected: ${called(desk.state.patch)} (row·column).`
      : hovered === undefined || hovered === desk.state.patch
        ? `Selected: ${called(desk.state.patch)} (row·column). It gives itself ${percent} of its attention; an equal share is 1/${desk.patches}, ${(100 / desk.patches).toFixed(2)} %.`
        : `From ${called(desk.state.patch)} to ${called(of)}: ${percent} of its attention.`;
  }

  function draw(): void {
    const weights = desk.row("weights");
    const most = Math.max(...weights);
    veil.checked = desk.state.veil;
    cells.forEach((cell, patch) => {
      const chosen = patch === desk.state.patch;
      cell.style.setProperty("--share", desk.state.veil ? Math.sqrt(weights[patch] / most).toFixed(3) : "1");
      cell.classList.toggle("chosen", chosen);
      cell.tabIndex = chosen ? 0 : -1;
      cell.setAttribute("aria-selected", String(chosen));
      cell.setAttribute("aria-label", `${called(patch)}: ${(weights[patch] * 100).toFixed(2)} %`);
    });
    tell();
  }
  return { element, draw };
}

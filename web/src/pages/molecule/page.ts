// The page of a molecule: two models side by side, controls that rotate it, and what is measured.
import type { Molecule } from "../../core/contract";
import { button, h } from "../../core/dom";
import { download } from "../../core/save";
import { navigation } from "../../widgets/navigation";
import { atomTable } from "./atoms";
import { card } from "./card";
import { controls } from "./controls";
import { curve } from "./curve";
import { MoleculeDesk } from "./desk";
import { attentionTable } from "./attention";
import { gap, measure } from "./equivariance";
import { numbers } from "./numbers";
import type { Stage } from "./stage";
import "./molecule.css";

const QUIET = 700; // milliseconds without a change before the announcement

export function mount(record: Molecule, root: HTMLElement): MoleculeDesk {
  const desk = new MoleculeDesk(record);
  const cards = [card(desk, "left"), card(desk, "right")];
  const stages = cards.map(({ stage }) => stage);
  const turning = controls(desk);
  const parts = [turning, ...cards, numbers(desk), curve(desk), attentionTable(desk, stages), atomTable(desk, stages[0])];
  const [, , , ...below] = parts;
  const failed = h("p.failed", { role: "alert", hidden: true });
  document.body.classList.add("molecule");
  root.replaceChildren(
    h(
      "header",
      navigation("molecule"),
      h(
        "div.top",
        h("h1", { "data-part": "title" }, record.title),
        h(
          "div.buttons",
          { "data-part": "tools" },
          button("↶ Undo", "Undo the last change (Ctrl+Z)", () => desk.undo()),
          button("Reset", "Back to the initial state", () => desk.reset()),
          button("PNG", "Save both pictures as one PNG", () => savePictures(stages)),
        ),
      ),
      h("p.lede", { "data-part": "title" }, record.summary),
      (record.notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
    ),
    h(
      "main",
      { id: "story" },
      h(
        "div.two",
        { "data-part": "models" },
        cards.map(({ element }) => element),
      ),
      failed,
      turning.element,
      below.map(({ element }) => element),
      announcer(desk),
    ),
    h("footer", { "data-part": "footer" }, "equiscope: every energy, force and weight is computed in your browser, in float64, by the operations that PyTorch ran. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  for (const stage of stages) desk.keep(() => stage.draw());
  for (const { draw } of parts) desk.keepSlowly(draw);
  desk.keep(() => {
    failed.hidden = !desk.failure;
    failed.textContent = desk.failure;
  });
  return desk;
}

/** Announces the outcome after a rotation. */
function announcer(desk: MoleculeDesk): HTMLElement {
  const status = h("p.spoken", { role: "status" });
  let later = 0;
  const sum = () => {
    const found = desk.record.solvers.map((model, i) => {
      const { energy } = measure(model, desk.known[i]) ?? {};
      if (!energy) return "";
      return `${model.title}: energy ${energy.holds ? "invariant" : `differs by ${gap(energy.difference)} ${model.unit}`.trimEnd()}`;
    });
    status.textContent = `${desk.announcement} ${found.join("; ")}.`;
  };
  desk.keep(() => {
    clearTimeout(later);
    later = window.setTimeout(sum, QUIET);
  });
  return status;
}

/** The stages side by side, as they are. */
function savePictures(stages: Stage[]): void {
  const canvas = document.createElement("canvas");
  const boxes = stages.map((stage) => stage.element.getBoundingClientRect());
  const fine = 2;
  canvas.width = fine * boxes.reduce((sum, { width }) => sum + width, 0);
  canvas.height = fine * Math.max(...boxes.map(({ height }) => height));
  const pen = canvas.getContext("2d")!;
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  let left = 0;
  stages.forEach((stage, i) => {
    stage.render(); // WebGL keeps its pixels until the next frame only
    for (const layer of stage.element.querySelectorAll("canvas"))
      pen.drawImage(layer, left, 0, fine * boxes[i].width, fine * boxes[i].height);
    left += fine * boxes[i].width;
  });
  canvas.toBlob((blob) => blob && download(blob, "equiscope-molecule.png"), "image/png");
}

// The page of a drawing: the picture, and beside it (below it on a phone) the whole model or the open box.
import type { Drawing } from "../../core/contract";
import { button, h, numbered, select } from "../../core/dom";
import { save } from "../../core/save";
import { explainer } from "../../widgets/explain";
import { navigation } from "../../widgets/navigation";
import { DrawingDesk } from "./desk";
import { panel } from "./panel";
import { mark, picture } from "./picture";

const [BESIDE, SMALLEST] = [900, 420]; // the panel stands beside the drawing in wider windows; its width

export function draw(drawing: Drawing, root: HTMLElement): DrawingDesk {
  const desk = new DrawingDesk(drawing);
  const aside = h("aside.panel", { "data-part": "panel", "aria-label": "details" });
  const place = h("div.place", { "data-part": "drawing" });
  const main = h("main", { id: "story" }, h("div.architected", place, aside));
  const controls = h("div.controls", { "data-part": "controls" });
  let width = 0;
  desk.rebuild = () => {
    aside.replaceChildren(panel(desk));
    controls.replaceChildren(...choices(desk));
    mark(place, drawing, desk.state.box, desk.state.action);
  };
  root.replaceChildren(
    h("header", navigation("drawing"), top(desk, main), h("p.lede", { "data-part": "title" }, drawing.summary), controls),
    main,
    explainer(desk),
    h(
      "footer",
      { "data-part": "footer" },
      "equiscope: drawn from the spec of a model; every number is computed in your browser. It works offline and sends no data.",
    ),
  );
  const fit = () => {
    const whole = main.clientWidth;
    const room = whole > BESIDE ? whole - SMALLEST : whole;
    if (Math.abs(room - width) < 2) return;
    width = room;
    place.replaceChildren(picture(drawing, room, (box) => desk.open(box)));
    mark(place, drawing, desk.state.box, desk.state.action);
  };
  fit();
  new ResizeObserver(fit).observe(main);
  desk.restart();
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && desk.state.box && !(event.target as HTMLElement).closest("input, .cell, canvas")) desk.close();
  });
  return desk;
}

function top(desk: DrawingDesk, main: HTMLElement): HTMLElement {
  const saved = (kind: "svg" | "png") => {
    desk.pin(undefined);
    save(main.querySelector<HTMLElement>(".place")!, `equiscope-${desk.drawing.title}`, kind);
  };
  return h(
    "div.top",
    h("h1", { "data-part": "title" }, `Architecture: ${desk.drawing.title}`),
    h(
      "div.buttons",
      { "data-part": "tools" },
      button("↶ Undo", "Undo the last change of a number (Ctrl+Z)", () => desk.undo()),
      button("Reset", "Back to the initial state", () => desk.set(desk.schema.initial(), { structure: true })),
      button("SVG", "Save the drawing as an SVG picture", () => saved("svg")),
      button("PNG", "Save the drawing as a PNG picture", () => saved("png")),
    ),
  );
}

function choices(desk: DrawingDesk): HTMLElement[] {
  const { state, drawing } = desk;
  const actions = [{ name: "", title: "all parts in colour" }, ...drawing.claims.map(({ action, summary }) => ({ name: action, title: `${action}: ${summary}` }))]; // prettier-ignore
  const head = select(
    "head",
    Array.from({ length: drawing.heads }, (_, i) => ({ name: String(i), title: `H${i}` })),
    String(state.head),
    (chosen) => desk.set({ head: Number(chosen) }),
  );
  return [
    select("not equivariant to", actions, state.action, (action) => desk.set({ action }, { structure: true })),
    ...(drawing.heads > 1 ? [head] : []),
    select("digits", numbered([0, 1, 2, 3, 4, 6]), String(state.digits), (chosen) => desk.set({ digits: Number(chosen) })),
  ];
}

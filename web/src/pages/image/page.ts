// The image page: a photograph in patches, the selected one followed down to its numbers, shares by region, what attention adds.
import type { Patches } from "../../core/contract";
import { button, h, numbered, select, slider } from "../../core/dom";
import { save } from "../../core/save";
import { explainer } from "../../widgets/explain";
import { navigation } from "../../widgets/navigation";
import { added } from "./added";
import { ImageDesk } from "./desk";
import { photo, photograph } from "./photo";
import { attended, features } from "./rows";
import { shares } from "./shares";
import { SCALES } from "./state";
import { steps } from "./steps";
import "./image.css";

const WRITTEN = ["0", "¼", "½", "1", "2", "4"];

export function mount(record: Patches, root: HTMLElement): ImageDesk {
  const desk = new ImageDesk(record);
  const image = photograph(desk);
  const main = h("main", { id: "story" });
  const parts = {
    photo: photo(desk, image),
    chosen: controls(desk),
    features: features(desk, image),
    row: attended(desk),
    shares: shares(desk),
    added: added(desk),
  };
  const program = h("div");
  const opened = h("details.part.program", { "data-part": "program", ontoggle: () => opened.open && !program.childElementCount && program.append(steps(desk)) }, h("summary", h("h2", "From pixels to the output")), h("p.quiet", "Every step of the program. Underlined numbers can be edited, and everything after them is computed again."), program) as HTMLDetailsElement; // prettier-ignore
  const saved = (kind: "svg" | "png") => {
    desk.pin(undefined);
    save(main, "equiscope-image", kind);
  };
  document.body.classList.add("image");
  main.append(
    h(
      "div.sides",
      h("section.part.left", { "data-part": "photo", "aria-label": "the photograph" }, parts.photo.element, record.credit && h("p.quiet.credit", record.credit)), // prettier-ignore
      h(
        "div.right",
        h("section.part", { "data-part": "scheme", "aria-label": "positions and scale" }, parts.chosen.element),
        h("section.part", { "data-part": "features", "aria-label": "features" }, parts.features.element),
        h("section.part", { "data-part": "row", "aria-label": "query, keys and weights" }, parts.row.element),
        h("section.part", { "data-part": "shares", hidden: !record.regions?.length }, h("h2", "Where the attention lies"), parts.shares.element), // prettier-ignore
      ),
    ),
    h("section.part", { "data-part": "added" }, h("h2", "What attention adds"), parts.added.element),
    opened,
  );
  root.replaceChildren(
    h(
      "header",
      navigation("image"),
      h(
        "div.top",
        h("h1", { "data-part": "title" }, record.title),
        h(
          "div.buttons",
          { "data-part": "tools" },
          button("↶ Undo", "Undo the last change (Ctrl+Z)", () => desk.undo()),
          button("Reset", "Back to the initial state", () => desk.set(desk.schema.initial())),
          button("SVG", "Save this page as an SVG picture", () => saved("svg")),
          button("PNG", "Save this page as a PNG picture", () => saved("png")),
        ),
      ),
      h("p.lede", { "data-part": "title" }, record.summary),
      (record.notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
    ),
    main,
    explainer(desk),
    h("footer", { "data-part": "footer" }, "equiscope: every number on this page is computed in your browser, from the program of a PyTorch module and the pixels of the photograph. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  let scheme = desk.state.scheme;
  desk.keep(() => {
    if (scheme === desk.state.scheme) return;
    scheme = desk.state.scheme; // another program has other steps
    program.replaceChildren(...(opened.open ? [steps(desk)] : []));
  });
  for (const { draw } of Object.values(parts)) desk.keep(draw);
  let named = "";
  desk.keep(() => {
    const { patch, scheme, point } = desk.state;
    const now = `${patch} ${scheme} ${point}`;
    if (now !== named) desk.restorePoint();
    named = now;
  });
  return desk;
}

/** The position scheme, the scale of the queries, the digits. */
function controls(desk: ImageDesk): { element: HTMLElement; draw(): void } {
  const { record } = desk;
  const schemes = select("positions", record.schemes, desk.state.scheme, (scheme) => desk.set({ scheme }));
  const scale = slider("scale of the queries", [0, SCALES.length - 1], SCALES.indexOf(desk.state.scale), (at, first) => desk.set({ scale: SCALES[at] }, { step: first }), (at) => `× ${WRITTEN[at]}`); // prettier-ignore
  const digits = select("digits", numbered([1, 2, 3, 4, 6]), String(desk.state.digits), (value) => desk.set({ digits: Number(value) })); // prettier-ignore
  const about = h("p.quiet.about");
  const range = scale.querySelector("input")!;
  return {
    element: h("div", h("div.controls", schemes, scale, digits), about),
    draw() {
      const { scheme, scale: by, digits: places } = desk.state;
      schemes.querySelector("select")!.value = scheme;
      digits.querySelector("select")!.value = String(places);
      const at = SCALES.indexOf(by);
      if (document.activeElement !== range) range.value = String(at);
      scale.querySelector("output")!.textContent = `× ${WRITTEN[at]}`;
      range.setAttribute("aria-valuetext", `times ${by}`);
      about.textContent = record.schemes.find(({ name }) => name === scheme)?.summary ?? "";
    },
  };
}

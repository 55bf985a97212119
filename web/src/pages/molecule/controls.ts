// Controls that rotate, mirror and replay the molecule.
import { button, h, select, slider } from "../../core/dom";
import type { MoleculeDesk } from "./desk";
import { rotationAbout, DEGREE, ofAngles, IDENTITY, type Three } from "./rotation";

const ROUND = 12; // seconds of a full rotation
const CALM = 15; // degrees of a step under prefers-reduced-motion

export function controls(desk: MoleculeDesk): { element: HTMLElement; draw(): void } {
  const names = ["about the vertical axis", "about the horizontal axis", "about the line of sight"];
  const sliders = names.map((name, k) =>
    slider(
      name,
      k === 1 ? [-90, 90] : [-180, 180],
      0,
      (value, first) => {
        const angles = [...desk.angles] as [number, number, number];
        angles[k] = value;
        desk.rest();
        desk.change({ rotation: ofAngles(angles as Three) }, "", first);
      },
      (value) => `${value}°`,
    ),
  );
  const play = spinner(desk);
  const mirror = h<HTMLInputElement>("input", { type: "checkbox", onchange: () => desk.change({ mirror: mirror.checked }, mirror.checked ? "Mirrored." : "Not mirrored.") }); // prettier-ignore
  const labels = h<HTMLInputElement>("input", {
    type: "checkbox",
    onchange: () => desk.change({ labels: labels.checked }),
  });
  const most = Math.max(...desk.record.solvers.map((one) => one.vectors));
  const kinds = [
    { name: "forces", title: "forces" },
    ...Array.from({ length: most }, (_, i) => ({ name: String(i), title: `learned vector ${i}` })),
    { name: "none", title: "none" },
  ];
  const arrows = select("vectors", kinds, desk.state.arrows, (name) => desk.change({ arrows: name }));
  const frames = replay(desk);
  const element = h(
    "section.part.rotation-controls",
    { "data-part": "controls", "aria-label": "rotate the molecule" },
    h("div.sliders", sliders),
    h(
      "div.controls",
      play,
      button("Reset rotation", "Restore the orientation of the file", () =>
        desk.change({ rotation: IDENTITY, mirror: false }, "Rotation reset."),
      ),
      h("label.choice", mirror, h("span", "mirror image")),
      arrows,
      h("label.choice", labels, h("span", "atom names")),
    ),
    frames.element,
    h("p#keys.quiet", "Drag to rotate. Tap an atom to see its attention, then drag that atom to move it. Arrow keys rotate; with Shift they move the chosen atom."), // prettier-ignore
    legend(desk),
  );

  function draw(): void {
    sliders.forEach((one, k) => {
      const input = one.querySelector("input")!;
      const value = String(Math.round(desk.angles[k]) || 0);
      if (document.activeElement !== input) input.value = value;
      one.querySelector("output")!.textContent = `${value.replace("-", "−")}°`;
      input.setAttribute("aria-valuetext", `${value} degrees`);
    });
    mirror.checked = desk.state.mirror;
    labels.checked = desk.state.labels;
    arrows.querySelector("select")!.value = desk.state.arrows;
    frames.draw();
  }
  return { element, draw };
}

/** Rotates the molecule continuously, until somebody touches it. */
function spinner(desk: MoleculeDesk): HTMLElement {
  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  let [running, before] = [0, 0];
  const stop = () => {
    cancelAnimationFrame(running);
    running = 0;
    play.textContent = "▶ Rotate";
    play.setAttribute("aria-pressed", "false");
  };
  const step = (now: number) => {
    const wait = calm() ? 500 : 0;
    if (now - before >= wait) {
      const far = calm() ? CALM : Math.min(now - before, 100) * (0.36 / ROUND);
      desk.rotate(rotationAbout([0.25, 1, 0.1], far * DEGREE), false);
      before = now;
    }
    running = requestAnimationFrame(step);
  };
  const play = button("▶ Rotate", "Rotate continuously", () => {
    if (running) return stop();
    desk.begin();
    before = performance.now();
    play.textContent = "❚❚ Stop";
    play.setAttribute("aria-pressed", "true");
    running = requestAnimationFrame(step);
  }, { "aria-pressed": "false" }); // prettier-ignore
  desk.rest = () => {
    if (running) stop();
  };
  return play;
}

/** The frames of the file. */
function replay(desk: MoleculeDesk): { element: HTMLElement; draw(): void } {
  const many = desk.record.captions.length;
  const caption = h("span.quiet");
  const range = slider("frame", [0, Math.max(many - 1, 0)], desk.state.frame, (frame, first) => desk.change({ frame }, "", first), String); // prettier-ignore
  const element = h("div.frames", { hidden: many < 2 }, range, caption);
  return {
    element,
    draw() {
      const input = range.querySelector("input")!;
      if (document.activeElement !== input) input.value = String(desk.state.frame);
      range.querySelector("output")!.textContent = String(desk.state.frame);
      caption.textContent = desk.record.captions[desk.state.frame] ?? "";
    },
  };
}

/** The colours of elements. */
function legend(desk: MoleculeDesk): HTMLElement {
  const count = (number: number) => desk.record.atoms.filter((one) => one === number).length;
  return h(
    "ul.elements",
    { "aria-label": "elements" },
    desk.record.elements.map((one) =>
      h("li", h("i.ball", { style: `--ball: ${one.colour}` }), `${one.symbol} ${one.name} × ${count(one.number)}`),
    ),
  );
}

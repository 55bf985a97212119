// Slices of a sound along time: a bar for each, as high as its weight; the axis is in seconds.
import { axis } from "../axis";
import type { Line } from "../contract";
import { h } from "../dom";
import { along, type LineView, type Listener, scaled, type Shown } from "./lines";
import { css, fitted, sized } from "./paint";

const [HIGH, FOOT] = [110, 20]; // pixels

export function slices(line: Line, label: string, listener: Listener): LineView {
  const count = line.labels.length;
  const timed = (line.seconds?.length ?? 0) === count;
  const last = timed ? line.seconds![count - 1] + (line.seconds![count - 1] - line.seconds![0]) / (count - 1) : count;
  const begins = (i: number) => (timed ? (line.seconds![i] ?? last) : i);
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const place = h(
    "div.time",
    { tabindex: 0, role: "application", "aria-label": `${label}: ${count} slices, arrow keys choose` },
    canvas,
  );
  const pictured =
    line.picture && /^data:image\//.test(line.picture) && h("img.spectrum", { src: line.picture, alt: "the sound as a picture" });
  const element = h("div.slices", pictured, place);
  let now: Shown = { signed: false, hidden: [] };

  const draw = () => {
    const width = Math.floor(place.clientWidth);
    if (!width) return;
    const context = sized(canvas, width, HIGH + FOOT);
    const along = axis([begins(0), last], [0, width], Math.max(2, width / 90));
    const scale = scaled(now);
    const out = new Set(now.hidden);
    const [role, positive, negative, quiet, empty, ink] = ["--role", "--positive", "--negative", "--quiet", "--empty", "--ink"].map(
      css,
    );
    context.fillStyle = empty;
    context.fillRect(0, 0, width, HIGH);
    for (let i = 0; i < count; i++) {
      const value = scale.of(i);
      const [x, to] = [along.place(begins(i)), along.place(begins(i + 1 < count ? i + 1 : count) || last)];
      const wide = Math.max(1, (i + 1 < count ? to : width) - x - ((i + 1 < count ? to : width) - x > 4 ? 1 : 0));
      context.fillStyle = now.signed ? (value < 0 ? negative : positive) : role;
      if (!out.has(i)) context.fillRect(x, HIGH * (1 - value * value), wide, HIGH * value * value);
      if (i !== now.chosen && i !== now.other) continue;
      context.strokeStyle = ink;
      context.lineWidth = i === now.chosen ? 2 : 1;
      context.strokeRect(x + 0.5, 1, Math.max(2, wide - 1), HIGH - 2);
    }
    context.fillStyle = quiet;
    context.font = `11px ${css("--sans")}`;
    context.textBaseline = "top";
    for (const tick of along.ticks) {
      const x = along.place(tick);
      context.textAlign = x < 20 ? "left" : x > width - 20 ? "right" : "center";
      context.fillText(`${along.text(tick)}${timed ? " s" : ""}`, x, HIGH + 5);
      context.fillRect(x, HIGH, 1, 4);
    }
  };
  const under = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const at = begins(0) + ((event.clientX - box.left) / box.width) * (last - begins(0));
    let found = 0;
    while (found + 1 < count && begins(found + 1) <= at) found++;
    return found;
  };
  place.addEventListener("pointermove", (event) => event.pointerType !== "touch" && listener.point(under(event)));
  place.addEventListener("pointerleave", () => listener.point(undefined));
  place.addEventListener("click", (event) => listener.pick(under(event)));
  place.addEventListener("keydown", (event) => {
    const to = along(event.key, now.chosen ?? now.other ?? 0, count);
    if (to === undefined) return;
    listener.pick(to);
    event.preventDefault();
  });
  fitted(place, draw);
  return {
    element,
    draw(shown) {
      now = shown;
      draw();
    },
  };
}

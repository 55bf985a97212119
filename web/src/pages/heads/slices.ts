// Slices of a sound along time: the waveform, where the record has the sound, and under it a bar for each slice, as high as its
// weight. The axis is in seconds. The sound is played as a whole, or one slice of it.
import { scale } from "../../charts/scale";
import type { TokenSequence } from "../../core/contract";
import { button, h } from "../../core/dom";
import { front } from "./prefix_tokens";
import { nextIndex, type LineView, type Listener, tintScale, type Shown } from "./lines";
import { css, fitted, sized } from "../../charts/canvas";
import { envelope, type Player, player, decodeSamples } from "./sound";

const [HIGH, FOOT, WAVE, GAP] = [110, 20, 76, 6]; // pixels

export function slices(line: TokenSequence, label: string, listener: Listener): LineView {
  const before = line.prefix_tokens ?? 0;
  const count = line.labels.length - before;
  const times = line.seconds ?? [];
  const timed = times.length === count;
  const heard = timed ? (line.sound ?? undefined) : undefined;
  const samples = heard && decodeSamples(heard);
  const step = timed ? (times[count - 1] - times[0]) / Math.max(1, count - 1) : 1;
  const begins = (i: number) => (timed ? times[i] : i);
  const ends = (i: number) => begins(i) + (timed ? line.duration || step : 1);
  const last = Math.max(ends(count - 1), heard && samples ? samples.length / heard.rate : 0);
  const bar = (i: number) => (i + 1 < count ? begins(i + 1) : Math.min(last, begins(i) + (step || last)));
  const top = heard ? WAVE + GAP : 0;
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const head = h("i.down", { hidden: true });
  const place = h("div.time", { tabindex: 0, role: "application", "aria-label": `${label}: ${count} slices, arrow keys choose` }, canvas, head); // prettier-ignore
  const thumbnail =
    line.picture && /^data:image\//.test(line.picture) && h("img.spectrum", { src: line.picture, alt: "the sound as a picture" });
  const tokens = front(line, listener, "prefix tokens");
  const play = heard && samples && playing(heard, samples);
  const element = h("div.slices", thumbnail, tokens.element, place, play?.element);
  let now: Shown = { signed: false, hidden: [] };
  let wave: [number, number][] = [];

  /** Buttons that play the sound, with the duration of what they play. */
  function playing(sound: NonNullable<TokenSequence["sound"]>, wave: Float32Array<ArrayBuffer>) {
    let current: Player | undefined;
    const tell = (at: number | undefined) => {
      head.hidden = at === undefined;
      stop.disabled = at === undefined;
      if (at !== undefined) head.style.left = `${(100 * (at - begins(0))) / (last - begins(0))}%`;
    };
    const start = (from: number, to: number) => (current ??= player(sound, wave, tell)).play(from, to);
    const slice = (i: number | undefined) => i !== undefined && i >= before && start(begins(i - before), ends(i - before));
    const whole = button("Play", "Play the whole sound", () => start(0, wave.length / sound.rate));
    const mine = button("", "Play the chosen slice", () => slice(now.chosen));
    const other = button("", "Play the other slice of the chosen pair", () => slice(now.other));
    const stop = button("Stop", "Stop the sound", () => current?.stop(), { disabled: true });
    return {
      element: h("div.buttons.play", { role: "group", "aria-label": "the sound" }, whole, mine, other, stop),
      draw() {
        for (const [press, i] of [
          [mine, now.chosen],
          [other, now.other],
        ] as const) {
          const one = i === undefined || i < before ? undefined : i - before;
          press.hidden = one === undefined;
          if (one !== undefined) press.textContent = `Play the slice at ${line.labels[one + before]} (${Math.round(1000 * (ends(one) - begins(one)))} ms)`; // prettier-ignore
        }
      },
    };
  }

  const draw = () => {
    const width = Math.floor(place.clientWidth);
    if (!width) return;
    const context = sized(canvas, width, top + HIGH + FOOT);
    const along = scale([begins(0), last], [0, width], width / 90);
    const tint = tintScale(now);
    const own = tintScale({ ...now, weights: now.weights?.subarray(before) });
    const out = new Set(now.hidden);
    const [role, positive, negative, quiet, empty, ink] = ["--role", "--positive", "--negative", "--quiet", "--empty", "--ink"].map(
      css,
    );
    tokens.draw(tint.of, now);
    play?.draw();
    context.fillStyle = empty;
    context.fillRect(0, top, width, HIGH);
    if (heard && samples) {
      if (wave.length !== width) wave = envelope(samples, begins(0) * heard.rate, last * heard.rate, width);
      context.fillRect(0, 0, width, WAVE);
      const most = Math.max(1e-9, ...wave.map(([low, high]) => Math.max(-low, high)));
      context.fillStyle = quiet;
      wave.forEach(([low, high], x) => {
        const [from, to] = [high, low].map((value) => WAVE / 2 - (value / most) * (WAVE / 2 - 2));
        context.fillRect(x, from, 1, Math.max(1, to - from));
      });
      for (const [i, strength] of [
        [now.other, 0.25],
        [now.chosen, 0.45],
      ] as const) {
        if (i === undefined || i < before || i - before >= count) continue;
        const [x, to] = [begins, ends].map((of) => along.place(of(i - before)));
        context.globalAlpha = strength;
        context.fillStyle = role;
        context.fillRect(x, 0, Math.max(2, to - x), WAVE);
        context.globalAlpha = 1;
        context.fillStyle = ink;
        for (const edge of [x, Math.max(x + 2, to) - 1]) context.fillRect(edge, 0, 1, WAVE);
      }
    }
    for (let i = 0; i < count; i++) {
      const value = own.of(i);
      const [x, to] = [along.place(begins(i)), along.place(bar(i))];
      const wide = Math.max(1, to - x - (to - x > 4 ? 1 : 0));
      context.fillStyle = now.signed ? (value < 0 ? negative : positive) : role;
      if (!out.has(i + before)) context.fillRect(x, top + HIGH * (1 - value * value), wide, HIGH * value * value);
      if (i + before !== now.chosen && i + before !== now.other) continue;
      context.strokeStyle = ink;
      context.lineWidth = i + before === now.chosen ? 2 : 1;
      context.strokeRect(x + 0.5, top + 1, Math.max(2, wide - 1), HIGH - 2);
    }
    context.fillStyle = quiet;
    context.font = `11px ${css("--sans")}`;
    context.textBaseline = "top";
    for (const tick of along.ticks) {
      const x = along.place(tick);
      context.textAlign = x < 20 ? "left" : x > width - 20 ? "right" : "center";
      context.fillText(`${along.text(tick)}${timed ? " s" : ""}`, x, top + HIGH + 5);
      context.fillRect(x, top + HIGH, 1, 4);
    }
  };
  const under = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const at = begins(0) + ((event.clientX - box.left) / box.width) * (last - begins(0));
    let found = 0;
    while (found + 1 < count && begins(found + 1) <= at) found++;
    return found + before;
  };
  place.addEventListener("pointermove", (event) => event.pointerType !== "touch" && listener.point(under(event)));
  place.addEventListener("pointerleave", () => listener.point(undefined));
  place.addEventListener("click", (event) => listener.pick(under(event)));
  place.addEventListener("keydown", (event) => {
    const to = nextIndex(event.key, now.chosen ?? now.other ?? 0, line.labels.length);
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

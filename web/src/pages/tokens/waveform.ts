// One sound and three tokenizations, one below the other on one time axis.
import { scale } from "../../charts/scale";
import type { SoundCut } from "../../core/contract";
import { h } from "../../core/dom";
import { type Colour, colour, css, fitted, pixel, pixels as blank, sized } from "../../charts/canvas";
import type { Tensor } from "../../core/tensor";
import { step } from "./cells";
import { count, reads } from "./spectrum";
import type { Way } from "./state";

export interface LanesShown {
  cut: SoundCut;
  mel: Tensor;
  way: Way;
  token: number;
  view: [number, number]; // seconds
}

export interface Lanes {
  element: HTMLElement;
  draw(shown: LanesShown): void;
  playhead(seconds: number | undefined, shown: LanesShown): void; // the position of the playback
}

export const TITLES: Record<Way, string> = {
  frames: "raw frames",
  mel: "log-mel frames",
  patches: "patches of the spectrogram",
};
const HIGH: Record<Way, number> = { frames: 92, mel: 132, patches: 132 };
const FOOT = 22;
const RANGE = 16; // of log energy: anything further below the maximum is drawn as silence

export function lanes(samples: Float64Array, rate: number, pick: (way: Way, token: number) => void): Lanes {
  const head = h("i.playhead", { hidden: true, "aria-hidden": "true" });
  const tracks = (["frames", "mel", "patches"] as Way[]).map((way) => {
    const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
    const lit = h("i.lit", { hidden: true, "aria-hidden": "true" });
    const field = h("div.lane", { tabindex: 0, role: "application", "data-way": way }, canvas, lit);
    const title = h("h3");
    return { way, canvas, lit, field, title, whole: h("div.lane-of", title, field) };
  });
  const foot = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const stack = h("div.stack", tracks.map(({ whole }) => whole), h("div.foot", foot), head); // prettier-ignore
  let now: LanesShown | undefined;
  let painted: { mel: Tensor; colours: string; picture: HTMLCanvasElement } | undefined; // repainted when numbers or colors change
  const width = () => Math.floor(stack.clientWidth);
  const x = (seconds: number) => ((seconds - now!.view[0]) / (now!.view[1] - now!.view[0])) * width();

  for (const { way, field } of tracks) {
    field.addEventListener("click", (event) => {
      if (!now) return;
      const b = field.getBoundingClientRect();
      const seconds = now.view[0] + ((event.clientX - b.left) / b.width) * (now.view[1] - now.view[0]);
      const height = 1 - (event.clientY - b.top) / b.height;
      pick(way, under(now.cut, way, seconds * rate, height));
    });
    field.addEventListener("keydown", (event) => {
      if (!now) return;
      const { cut } = now;
      const bands = way === "patches" ? cut.mel.shape[1] / cut.patch![1] : 1;
      const from = now.way === way ? now.token : under(cut, way, ((now.view[0] + now.view[1]) / 2) * rate, 0);
      // time is horizontal, bands are vertical
      const [row, column, times] = [from % bands, Math.floor(from / bands), count(cut, way) / bands];
      const to = step(event.key, (bands - 1 - row) * times + column, times, bands * times);
      if (to === undefined || (bands === 1 && /Up|Down/.test(event.key))) return;
      event.preventDefault();
      const edge = /Left|Right/.test(event.key) && Math.floor(to / times) !== bands - 1 - row;
      if (!edge) pick(way, (to % times) * bands + (bands - 1 - Math.floor(to / times)));
    });
  }

  /** The box of a token in its lane: left and width in pixels, top and height as shares. */
  function place(way: Way, token: number): [number, number, number, number] {
    const { cut } = now!;
    const [begin, end] = reads(cut, way, token).map((sample) => sample / rate);
    if (way !== "patches") return [x(begin), x(end) - x(begin), 0, 1];
    const bands = cut.mel.shape[1] / cut.patch![1];
    const [first, last] = columnsOf(cut, token);
    return [x(first / rate), x(last / rate) - x(first / rate), 1 - ((token % bands) + 1) / bands, 1 / bands];
  }

  function draw(): void {
    const wide = width();
    if (!wide || !now) return;
    const { cut, mel, view } = now;
    const colours = ["--empty", "--loud", "--ink"].map(css).join();
    if (painted?.mel !== mel || painted.colours !== colours) painted = { mel, colours, picture: spectrogram(mel) };
    const { picture } = painted;
    for (const { way, canvas, field, title, whole } of tracks) {
      const many = count(cut, way);
      whole.hidden = many === 0;
      if (!many) continue;
      const high = HIGH[way];
      title.textContent = `${TITLES[way]}: ${many.toLocaleString("en")} tokens`;
      field.dataset.open = String(way === now.way);
      field.setAttribute("aria-label", `${TITLES[way]}: ${many} tokens. ${way === now.way ? `Token ${now.token} is selected. ` : ""}Arrow keys select one, Enter plays it.`); // prettier-ignore
      const context = sized(canvas, wide, high);
      context.fillStyle = css("--empty");
      context.fillRect(0, 0, wide, high);
      if (way === "frames") wave(context, wide, high);
      else {
        const from = (cut.window - cut.hop) / 2 / rate;
        const to = from + (mel.shape[0] * cut.hop) / rate;
        context.imageSmoothingEnabled = false;
        context.drawImage(picture, x(from), 0, x(to) - x(from), high);
      }
      grid(context, way, many, high);
      const chosen = way === now.way;
      if (chosen) {
        const [left, broad, top, tall] = place(way, now.token);
        context.fillStyle = css("--mark");
        context.globalAlpha = way === "frames" ? 0.35 : 0.2;
        context.fillRect(left, top * high, Math.max(broad, 2), tall * high);
        context.globalAlpha = 1;
        context.lineWidth = 2;
        context.strokeStyle = css("--mark");
        context.strokeRect(left, top * high + 1, Math.max(broad, 2), tall * high - 2);
      } else {
        const [begin, end] = reads(cut, now.way, now.token);
        context.fillStyle = css("--mark");
        context.globalAlpha = 0.8;
        context.fillRect(x((begin + end) / 2 / rate) - 0.75, 0, 1.5, high);
        context.globalAlpha = 1;
      }
    }
    ticks(wide, view);
  }

  /** Highest and lowest sample of each column of pixels. */
  function wave(context: CanvasRenderingContext2D, wide: number, high: number): void {
    const { view } = now!;
    let most = 0;
    for (const value of samples) most = Math.max(most, Math.abs(value));
    const y = (value: number) => high / 2 - (value / (most || 1)) * (high / 2 - 3);
    const each = ((view[1] - view[0]) * rate) / wide;
    context.fillStyle = css("--positive");
    context.strokeStyle = css("--positive");
    if (each < 1.5) {
      context.beginPath();
      const [from, to] = [Math.max(0, Math.floor(view[0] * rate)), Math.min(samples.length - 1, Math.ceil(view[1] * rate))];
      for (let t = from; t <= to; t++) context.lineTo(x((t + 0.5) / rate), y(samples[t]));
      context.stroke();
      return;
    }
    for (let column = 0; column < wide; column++) {
      const from = Math.max(0, Math.floor(view[0] * rate + column * each));
      const to = Math.min(samples.length, Math.ceil(view[0] * rate + (column + 1) * each));
      let [low, top] = [Infinity, -Infinity];
      for (let t = from; t < to; t++) [low, top] = [Math.min(low, samples[t]), Math.max(top, samples[t])];
      if (low <= top) context.fillRect(column, y(top), 1, Math.max(1, y(low) - y(top)));
    }
  }

  /** Lines between tokens, if they are wide enough. */
  function grid(context: CanvasRenderingContext2D, way: Way, many: number, high: number): void {
    const { cut, view } = now!;
    const bands = way === "patches" ? cut.mel.shape[1] / cut.patch![1] : 1;
    const hop = way === "frames" ? cut.window : way === "mel" ? cut.hop : cut.hop * cut.patch![0];
    if ((hop / rate / (view[1] - view[0])) * width() < 7) return;
    const start = way === "frames" ? 0 : (cut.window - cut.hop) / 2;
    context.fillStyle = css("--card");
    context.globalAlpha = 0.7;
    for (let i = 0; i <= many / bands; i++) context.fillRect(x((start + i * hop) / rate) - 0.5, 0, 1, high);
    const [left, right] = [x(start / rate), x((start + (many / bands) * hop) / rate)];
    for (let i = 1; i < bands; i++) context.fillRect(left, (high * i) / bands - 0.5, right - left, 1);
    context.globalAlpha = 1;
  }

  function ticks(wide: number, view: [number, number]): void {
    const context = sized(foot, wide, FOOT);
    const along = scale(view, [0, wide], wide / 90);
    context.fillStyle = css("--quiet");
    context.font = `12px ${css("--sans")}`;
    context.textBaseline = "top";
    for (const tick of along.ticks) {
      const at = along.place(tick);
      context.textAlign = at < 20 ? "left" : at > wide - 24 ? "right" : "center";
      context.fillText(`${along.text(tick)} s`, Math.min(wide, Math.max(0, at)), 7);
      context.fillRect(at, 0, 1, 5);
    }
  }

  fitted(stack, draw);
  return {
    element: stack,
    draw(shown) {
      now = shown;
      draw();
    },
    playhead(seconds, shown) {
      now = shown;
      const inside = seconds !== undefined && seconds >= shown.view[0] && seconds <= shown.view[1];
      head.hidden = !inside;
      if (inside) head.style.transform = `translateX(${x(seconds).toFixed(1)}px)`;
      for (const { way, lit } of tracks) {
        const token = inside && way === shown.way ? under(shown.cut, way, seconds * rate, way === "patches" ? (shown.token % bandsOf(shown.cut)) / bandsOf(shown.cut) + 1e-6 : 0) : undefined; // prettier-ignore
        lit.hidden = token === undefined;
        if (token === undefined) continue;
        const [left, broad, top, tall] = place(way, token);
        lit.dataset.token = String(token);
        lit.style.cssText = `left:${left}px;width:${Math.max(broad, 2)}px;top:${100 * top}%;height:${100 * tall}%`;
      }
    },
  };
}

const bandsOf = (cut: SoundCut): number => (cut.patch?.length ? cut.mel.shape[1] / cut.patch[1] : 1);

/** The samples from which to which the columns of a patch are drawn: a hop around each window's middle. */
function columnsOf(cut: SoundCut, token: number): [number, number] {
  const windows = cut.patch![0];
  const first = Math.floor(token / bandsOf(cut)) * windows;
  const start = (cut.window - cut.hop) / 2;
  return [start + first * cut.hop, start + (first + windows) * cut.hop];
}

/** The token of a way that is drawn at a sample; height: from 0 at the lowest band to 1. */
export function under(cut: SoundCut, way: Way, sample: number, height: number): number {
  const many = count(cut, way);
  const bounded = (i: number, top: number) => Math.max(0, Math.min(top - 1, Math.floor(i)));
  if (way === "frames") return bounded(sample / cut.window, many);
  const column = (sample - (cut.window - cut.hop) / 2) / cut.hop;
  if (way === "mel") return bounded(column, many);
  const bands = bandsOf(cut);
  return bounded(column / cut.patch![0], many / bands) * bands + bounded(height * bands, bands);
}

/** Energies as a picture, one pixel per number, high bands above. */
export function spectrogram(mel: Tensor): HTMLCanvasElement {
  const [many, bands] = mel.shape;
  const picture = blank(many, bands);
  const image = new ImageData(many, bands);
  const paint = loudness(mel.data);
  for (let n = 0; n < many; n++)
    for (let b = 0; b < bands; b++) pixel(image.data, (bands - 1 - b) * many + n, paint(mel.data[n * bands + b]), 1);
  picture.getContext("2d")!.putImageData(image, 0, 0);
  return picture;
}

/** The color of an energy, from the background for silence to the text color for the maximum. */
export function loudness(values: ArrayLike<number>): (value: number) => Colour {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) [low, high] = [Math.min(low, values[i]), Math.max(high, values[i])];
  low = Math.max(low, high - RANGE);
  const stops = ["--empty", "--loud", "--ink"].map(colour);
  return (value) => {
    const share = 2 * Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
    const [from, to, rest] = share < 1 ? [stops[0], stops[1], share] : [stops[1], stops[2], share - 1];
    return from.map((part, i) => part + (to[i] - part) * rest) as Colour;
  };
}

// Tokens as text: any script, in its own direction, tinted by weight. A long text shows a window of tokens, and a band for all of it.
import type { TokenSequence } from "../../core/contract";
import { button, h } from "../../core/dom";
import { direction, shown as seen, spaced, visible } from "../../core/labels";
import { nextIndex, type LineView, type Listener, tintScale, type Shown } from "./lines";
import { colour, css, fitted, pixel, pixels, sized } from "../../charts/canvas";

const [ALL, WINDOW, BAND] = [520, 320, 30]; // tokens, tokens, pixels
let views = 0;

export function words(line: TokenSequence, label: string, listener: Listener): LineView {
  const { labels } = line;
  const id = `line-${++views}`;
  const long = labels.length > ALL;
  const own = spaced(labels);
  const text = h("div.text", {
    tabindex: 0,
    role: "listbox",
    "aria-label": label,
    dir: direction(labels),
    "data-spaced": String(own),
  });
  const band = long ? overview(labels.length, (place) => listener.pick(place), listener.point) : undefined;
  const place = h("span.quiet");
  const turn = (by: number) => () => fill(Math.max(0, Math.min(labels.length - WINDOW, begin + by)));
  const earlier = button("Earlier", "The tokens before these", turn(-WINDOW + 20));
  const later = button("Later", "The tokens after these", turn(WINDOW - 20));
  const element = h("div.words-view", band?.element, long && h("div.buttons", earlier, later, place), text);
  let tokens: HTMLElement[] = [];
  let tints: number[] = [];
  let marks: string[] = [];
  let begin = 0;
  let now: Shown = { signed: false, hidden: [] };

  function fill(from: number): void {
    begin = from;
    const end = long ? Math.min(labels.length, from + WINDOW) : labels.length;
    tokens = [];
    tints = [];
    marks = [];
    const parts: (HTMLElement | string)[] = [];
    for (let i = from; i < end; i++) {
      const apart = own && /^ \S/.test(labels[i] ?? ""); // the leading space stands before the token, so that a line can break there
      if (apart) parts.push(" ");
      const written = own ? flowing(apart ? labels[i].slice(1) : labels[i], i) : visible(labels[i], i);
      const token = h("bdi.token", { role: "option", id: `${id}-${i}`, "data-i": i }, written);
      tokens.push(token);
      parts.push(token);
      if (labels[i]?.includes("\n") && own) parts.push(h("br"));
      else if (!own) parts.push(" ");
    }
    text.replaceChildren(...parts);
    if (long) {
      place.textContent = `tokens ${from} to ${end - 1} of ${labels.length.toLocaleString("en")}`;
      earlier.disabled = from === 0;
      later.disabled = end === labels.length;
    }
    paint();
  }

  function paint(): void {
    band?.draw(now, begin, tokens.length); // first: it reads colours, which is slow once the tokens have changed theirs
    const scale = tintScale(now);
    const out = new Set(now.hidden);
    tokens.forEach((token, at) => {
      const i = begin + at;
      const tint = Math.round(scale.of(i) * 60);
      if (tints[at] !== tint) {
        tints[at] = tint;
        token.style.setProperty("--tint", String(Math.abs(tint)));
        token.classList.toggle("less", tint < 0);
      }
      const mark = [i === now.chosen && "chosen", i === now.other && "other", out.has(i) && "out", now.closed?.(i) && "closed"]
        .filter(Boolean)
        .join(" ");
      if (marks[at] !== mark) {
        marks[at] = mark;
        token.dataset.mark = mark;
        token.setAttribute("aria-selected", String(i === now.chosen));
      }
    });
    const active = now.chosen ?? now.other;
    if (active !== undefined && tokens[active - begin]) text.setAttribute("aria-activedescendant", `${id}-${active}`);
    else text.removeAttribute("aria-activedescendant");
  }

  /** Scroll the text, and nothing else, to a token. */
  function reach(token: HTMLElement | undefined): void {
    if (!token || text.scrollHeight <= text.clientHeight) return;
    const [box, at] = [text.getBoundingClientRect(), token.getBoundingClientRect()];
    if (at.top < box.top || at.bottom > box.bottom) text.scrollTop += at.top - box.top - text.clientHeight / 2;
  }

  const under = (event: Event) => {
    const found = (event.target as HTMLElement).closest<HTMLElement>(".token")?.dataset.i;
    return found === undefined ? undefined : Number(found);
  };
  text.addEventListener("pointerover", (event) => event.pointerType !== "touch" && listener.point(under(event)));
  text.addEventListener("pointerleave", () => listener.point(undefined));
  text.addEventListener("click", (event) => {
    const found = under(event);
    if (found !== undefined) listener.pick(found);
  });
  text.addEventListener("keydown", (event) => {
    const back = text.dir === "rtl" ? { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[event.key] : undefined;
    const to = nextIndex(back ?? event.key, now.chosen ?? now.other ?? 0, labels.length);
    if (to === undefined) return;
    listener.pick(to);
    event.preventDefault();
  });
  fill(0);
  return {
    element,
    draw(shown) {
      const active = shown.chosen ?? shown.other ?? 0;
      const turned = shown.chosen !== now.chosen || shown.other !== now.other;
      now = shown;
      if (long && turned && (active < begin || active >= begin + tokens.length) && !text.matches(":hover"))
        fill(Math.max(0, Math.min(labels.length - WINDOW, active - WINDOW / 2)));
      else paint();
      if (turned && !text.matches(":hover")) reach(tokens[active - begin]);
    },
  };
}

/** A label inside a text: its spaces stay spaces, line ends are written out. */
function flowing(label: string | undefined, place: number): string {
  return label === undefined || label === "" || /^\s+$/.test(label) ? visible(label, place) : seen(label);
}

/** All tokens as a band; where several share a pixel, it shows the strongest. */
function overview(count: number, pick: (place: number) => void, point: (place: number | undefined) => void) {
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const element = h("div.band", canvas);
  let last: [Shown, number, number] | undefined;
  const under = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - box.left) / box.width) * count)));
  };
  canvas.addEventListener("click", (event) => pick(under(event)));
  canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(under(event)));
  canvas.addEventListener("pointerleave", () => point(undefined));
  const draw = (shown: Shown, begin: number, length: number) => {
    last = [shown, begin, length];
    const width = Math.floor(element.clientWidth);
    if (!width) return;
    const context = sized(canvas, width, BAND);
    const scale = tintScale(shown);
    const wide = Math.min(width, count);
    const strongest = new Float64Array(wide);
    for (let i = 0; i < count; i++) {
      const [at, value] = [Math.floor((i * wide) / count), scale.of(i)];
      if (Math.abs(value) > Math.abs(strongest[at])) strongest[at] = value;
    }
    const image = new ImageData(wide, 1);
    const [more, less] = [colour(shown.signed ? "--positive" : "--role"), colour("--negative")];
    strongest.forEach((value, at) => pixel(image.data, at, value < 0 ? less : more, Math.abs(value)));
    const row = pixels(wide, 1);
    row.getContext("2d")!.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(row, 0, 0, width, BAND);
    context.strokeStyle = css("--quiet");
    context.strokeRect((begin / count) * width + 0.5, 0.5, Math.max(2, (length / count) * width - 1), BAND - 1);
    const chosen = shown.chosen ?? shown.other;
    if (chosen === undefined) return;
    context.fillStyle = css("--ink");
    context.fillRect((chosen / count) * width - 1, 0, 2, BAND);
  };
  fitted(element, () => last && draw(...last));
  return { element, draw };
}

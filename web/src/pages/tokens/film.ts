// A video as tokens: frames side by side with the selected tubelet, a slider over time, the tubelet enlarged.
import { digits } from "../../core/format";
import type { FilmCut, FilmTokens } from "../../core/contract";
import { button, h, slider } from "../../core/dom";
import { css, fitted, pixels as blank, sized } from "../../charts/canvas";
import { at, unpack } from "../../core/tensor";
import { box } from "./patch";
import { cellOf, Pixels, type Size, tokenOf } from "./tubelets";
import { boxed } from "./cells";
import { counts, whole } from "./counts";
import { heading, type Section, type Tell } from "./section";
import { within } from "./state";

const called = ([t, h, w]: Size): string => `${t}×${h}×${w}`;

export function film(record: FilmTokens, tell: Tell): Section {
  const [many, high, wide] = record.size as Size;
  const timed = (f: number): string => `frame ${f}, ${digits(Number((f / record.fps).toFixed(3)))} s`;
  const pixels = new Pixels([many, high, wide], record.frames);
  const sheets = Array.from({ length: many }, (_, f) => {
    const sheet = blank(wide, high);
    sheet.getContext("2d")!.putImageData(pixels.image(f), 0, 0);
    return sheet;
  });
  const canvas = h<HTMLCanvasElement>("canvas", { "aria-hidden": "true" });
  const frame = h("i.frame");
  const photo = h("div.photo", { tabindex: 0, role: "application", style: `aspect-ratio:${wide}/${high};width:min(100%, ${Math.round((wide / high) * 384)}px)` }, canvas, frame); // prettier-ignore
  const ways = h("div.switch", { role: "group", "aria-label": "size of a tubelet: frames, rows, columns" });
  const summary = h("p.summary", { "aria-live": "polite" });
  const strip = h("div.film-strip", { role: "group", "aria-label": "frames" });
  const frames = Array.from({ length: many }, (_, f) => {
    const small = h<HTMLCanvasElement>("canvas", { width: wide, height: high, "aria-hidden": "true" });
    small.getContext("2d")!.drawImage(sheets[f], 0, 0);
    const mark = h("i.frame");
    const press = h("button.still", { type: "button", "aria-label": `frame ${f}`, onclick: () => show(f) }, small, mark); // prettier-ignore
    return { press, mark };
  });
  const one = box(pixels, (number) => tell.set({ number }), (token) => tell.set({ token, number: 0, frame: undefined })); // prettier-ignore
  const table = counts("Tokenizations of this film", many / record.fps);
  const sliding = h("div.sliding");
  let running: ReturnType<typeof setInterval> | undefined;
  const run = button("Play", "Play the film", () => (running ? (halt(), tell.set({})) : begin()), { class: "run" });
  const element = h(
    "div.kind",
    h(
      "section.part",
      { "data-part": "film" },
      heading(record.name, "film"),
      record.note && h("p.quiet", record.note),
      ways,
      summary,
      strip,
      h("div.beside", h("div", photo, h("div.moves", run, sliding)), h("div.one", one.element)),
      one.maps,
    ),
    table.element,
  );
  let shown: { size: Size; grid: Size; token: number; frame: number };
  let range: HTMLElement | undefined;

  const now = (): FilmCut => record.cuts[within(tell.now().cut, record.cuts.length, 0)];
  function read(): typeof shown {
    const cut = now();
    const [size, grid] = [cut.size as Size, cut.grid as Size];
    const middle = tokenOf(grid, grid.map((n) => Math.floor(n / 2)) as Size);
    const token = within(tell.now().token, grid[0] * grid[1] * grid[2], middle);
    const first = cellOf(grid, token)[0] * size[0];
    const asked = tell.now().frame;
    return { size, grid, token, frame: typeof asked === "number" && asked >= first && asked < first + size[0] ? asked : first };
  }

  /** Selects a frame, and the token of that time at the same row and column. */
  function show(f: number, passing = false): void {
    const { grid, size, token } = shown;
    const [, row, column] = cellOf(grid, token);
    tell.set({ frame: f, token: tokenOf(grid, [Math.floor(f / size[0]), row, column]) }, passing);
  }
  const begin = () => {
    run.textContent = "Stop";
    running = setInterval(() => show((shown.frame + 1) % many, true), 1000 / Math.min(record.fps, 12));
  };
  const halt = () => {
    if (!running) return;
    clearInterval(running);
    running = undefined;
    run.textContent = "Play";
  };
  const take = (i: number): void => {
    const { grid, size, token, frame } = shown;
    const after = record.cuts[i];
    const to = cellOf(grid, token).map((n, axis) => Math.min(after.grid[axis] - 1, Math.floor(((n + (axis ? 0.5 : 0)) * size[axis] + (axis ? 0 : frame % size[0])) / after.size[axis]))); // prettier-ignore
    tell.set({ cut: i, token: tokenOf(after.grid as Size, to as Size), frame, number: 0 });
  };
  photo.addEventListener("click", (event) => {
    const b = photo.getBoundingClientRect();
    const { size, grid, frame } = shown;
    const row = Math.floor((((event.clientY - b.top) / b.height) * high) / size[1]);
    const column = Math.floor((((event.clientX - b.left) / b.width) * wide) / size[2]);
    if (row >= 0 && column >= 0 && row < grid[1] && column < grid[2])
      tell.set({ token: tokenOf(grid, [Math.floor(frame / size[0]), row, column]), number: 0, frame });
  });
  photo.addEventListener("keydown", (event) => {
    const { grid, token, frame } = shown;
    const to = cellOf(grid, token);
    const by = { ArrowLeft: [2, -1], ArrowRight: [2, 1], ArrowUp: [1, -1], ArrowDown: [1, 1], PageUp: [0, -1], PageDown: [0, 1] }[event.key]; // prettier-ignore
    if (!by) return;
    event.preventDefault();
    to[by[0]] = Math.min(grid[by[0]] - 1, Math.max(0, to[by[0]] + by[1]));
    tell.set({ token: tokenOf(grid, to), number: 0, frame: by[0] ? frame : undefined });
  });

  function paint(): void {
    const width = photo.clientWidth;
    if (!width || !shown) return;
    const tall = (width * high) / wide;
    const { size, grid, frame } = shown;
    const context = sized(canvas, width, tall);
    context.imageSmoothingEnabled = false;
    context.drawImage(sheets[frame], 0, 0, width, tall);
    context.strokeStyle = css("--card");
    context.globalAlpha = 0.75;
    context.beginPath();
    for (let i = 1; i < grid[2]; i++) {
      context.moveTo((width * i * size[2]) / wide, 0);
      context.lineTo((width * i * size[2]) / wide, tall);
    }
    for (let i = 1; i < grid[1]; i++) {
      context.moveTo(0, (tall * i * size[1]) / high);
      context.lineTo(width, (tall * i * size[1]) / high);
    }
    context.stroke();
    context.globalAlpha = 1;
  }
  fitted(photo, paint);

  return {
    element,
    leave: halt,
    draw() {
      const cut = now();
      shown = read();
      const { size, grid, token, frame: f } = shown;
      const total = grid[0] * grid[1] * grid[2];
      const [time, row, column] = cellOf(grid, token);
      ways.replaceChildren(...record.cuts.map((each, i) => h("button", { type: "button", "aria-pressed": String(each === cut), onclick: () => take(i) }, called(each.size as Size)))); // prettier-ignore
      summary.textContent = `${grid.join(" × ")} = ${whole(total)} tokens of ${whole(cut.numbers)} numbers, each a box of ${size[0] === 1 ? "one frame" : `${size[0]} frames`}, ${size[1]} rows and ${size[2]} columns.`;
      photo.setAttribute("aria-label", `frame ${f}, ${grid[1]} by ${grid[2]} tokens. Arrow keys select one; page up and page down move in time.`); // prettier-ignore
      const begins: Size = [time * size[0], row * size[1], column * size[2]];
      frame.style.cssText = boxed(begins[1], begins[2], size[1], size[2], high, wide);
      frames.forEach(({ press, mark }, i) => {
        const inside = i >= begins[0] && i < begins[0] + size[0];
        press.setAttribute("aria-pressed", String(i === f));
        press.dataset.first = String(i % size[0] === 0 && i > 0);
        mark.hidden = !inside;
        mark.style.cssText = frame.style.cssText;
      });
      strip.replaceChildren(...frames.map(({ press }) => press));
      const seconds = at(unpack(cut.positions), [token, 0]);
      const title = `Tubelet ${whole(token)}`;
      const where = `Its position is (${digits(seconds)} s, row ${row}, column ${column}): the middle of its time span, its row and its column.`;
      one.draw({ size, begins, grid, token, number: within(tell.now().number, cut.numbers, 0), title, where, mapped: cut.projection, outputs: record.outputs, what: `A 3D convolution with the kernel W and a stride of ${called(size)}` }); // prettier-ignore
      table.draw(record.cuts.map((each, i) => ({ name: called(each.size as Size), tokens: each.grid.reduce((a, b) => a * b, 1), numbers: each.numbers, pressed: each === cut, pick: () => take(i) }))); // prettier-ignore
      if (!range) {
        range = slider("time", [0, many - 1], f, show, timed); // prettier-ignore
        sliding.append(range);
      } else {
        const input = range.querySelector("input")!;
        input.value = String(f);
        input.setAttribute("aria-valuetext", timed(f));
        range.querySelector("output")!.textContent = timed(f);
      }
      paint();
    },
  };
}

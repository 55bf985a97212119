// A sound as tokens: playback, three tokenizations on one time axis, and one token down to its samples.
import { digits } from "../../core/format";
import type { SoundCut, SoundTokens } from "../../core/contract";
import { button, h, select } from "../../core/dom";
import { css } from "../../charts/canvas";
import { at, type Tensor, unpack } from "../../core/tensor";
import { bars, cells } from "./cells";
import { counts, whole } from "./counts";
import { lanes, type LanesShown, loudness, TITLES } from "./waveform";
import { Player } from "./player";
import { heading, type Section, type Tell } from "./section";
import { count, inPatch, logEnergy, nearest, numbers, range, reads, terms } from "./spectrum";
import { type Chosen, WAYS, within } from "./state";

const SPANS = [2, 0.5, 0.1]; // seconds in view, beside all

export interface SoundSection extends Section {
  player: Player;
  wave: Float64Array;
}

export function sound(record: SoundTokens, tell: Tell): SoundSection {
  const { rate, unit } = record;
  const counted = unpack(record.samples).data;
  const wave = counted.map((value) => value * unit);
  const lasts = wave.length / rate;
  const mels = new Map<SoundCut, Tensor>();
  const melOf = (cut: SoundCut) => mels.get(cut) ?? (mels.set(cut, unpack(cut.mel)), mels.get(cut)!);
  let shown: LanesShown;
  let pointed: number | undefined;

  const player = new Player(Float32Array.from(wave), rate, (seconds) => {
    if (!shown) return;
    follow(seconds);
    view.playhead(seconds, shown);
    clock.textContent = seconds === undefined ? "" : `${seconds.toFixed(2)} s`;
    const over = seconds === undefined && !player.playing;
    stop.disabled = over;
  });
  const [all, one, hold] = [
    button("Play all", "Play the whole sound", () => player.play(0, wave.length)),
    button("Play the token", "Play the token's samples", () => player.play(...own())),
    button("Loop the token", "Play the token in a loop, also after another is selected", () => player.play(...own(), true)),
  ];
  const stop = button("Stop", "Stop playing", () => player.stop(), { disabled: true });
  const clock = h("span.clock", { "aria-hidden": "true" });
  const view = lanes(wave, rate, (way, token) => tell.set({ way, token, number: 0 }));
  const choices = h("div.choices");
  const summary = h("p.summary", { "aria-live": "polite" });
  const [title, where] = [h("h3"), h("p.where")];
  const formula = h("output.formula-line", { "aria-live": "polite" });
  const listener = {
    pick: (number: number) => tell.set({ number }),
    point: (i: number | undefined) => {
      if (i === pointed) return;
      pointed = i;
      explain();
    },
  };
  const row = bars("div.values", listener, css);
  const square = cells("div.sheet", {
    pick: (i) => listener.pick(turned(shown.cut, i)),
    point: (i) => listener.point(i === undefined ? undefined : turned(shown.cut, i)),
  });
  const operands = h("div.operands");
  const table = counts("Tokenizations of this sound", lasts);
  const element = h(
    "div.kind",
    h(
      "section.part",
      { "data-part": "sound" },
      heading(record.name, "sound"),
      h("p.quiet", `${whole(wave.length)} samples, ${whole(rate)} per second: ${digits(Number(lasts.toFixed(4)))} s. ${record.note ?? ""}`), // prettier-ignore
      record.silent && h("p.notice", "This sound is silent: all its samples are equal. Every energy is the floor, whose logarithm is −23.03."), // prettier-ignore
      choices,
      summary,
      view.element,
      h("div.moves", { role: "group", "aria-label": "listen" }, all, one, hold, stop, clock),
    ),
    h("section.part.token", { "data-part": "token" }, title, where, h("div.enlarged", h("div.values-of", row.element, square.element), h("div.numbers", formula, operands))), // prettier-ignore
    table.element,
  );

  /** During playback the view follows the sound; afterwards it returns to the selection. */
  function follow(seconds: number | undefined): void {
    const [from, to] = shown.view;
    if (seconds === undefined) {
      const { view: before } = read();
      if (before[0] === from && before[1] === to) return;
      shown = { ...shown, view: before };
    } else if (seconds < from || seconds > to) {
      const start = Math.max(0, Math.min(lasts - (to - from), seconds));
      shown = { ...shown, view: [start, start + to - from] };
    } else return;
    view.draw(shown);
  }
  view.element.addEventListener("keydown", ({ key }) => {
    if (key === "Enter") player.play(...own());
    if (key === "Escape") player.stop();
  });
  const own = (): [number, number] => reads(shown.cut, shown.way, shown.token);
  function read(): LanesShown {
    const now: Chosen = tell.now();
    const cut = record.cuts[within(now.cut, record.cuts.length, 0)];
    const way = count(cut, now.way) ? now.way : "mel";
    const token = within(now.token, count(cut, way), nearest(cut, way, lasts / 2));
    const [begin, end] = reads(cut, way, token);
    const span = now.span && now.span < lasts ? now.span : lasts;
    const from = Math.max(0, Math.min(lasts - span, (begin + end) / 2 / rate - span / 2));
    return { cut, mel: melOf(cut), way, token, view: [from, from + span] };
  }

  /** Another window or another tokenization, at the same time. */
  function take(change: Partial<Chosen>): void {
    const [begin, end] = own();
    const cut = record.cuts[change.cut ?? within(tell.now().cut, record.cuts.length, 0)];
    const way = change.way ?? shown.way;
    tell.set({ ...change, token: count(cut, way) ? nearest(cut, way, (begin + end) / 2 / rate) : undefined, number: 0 });
  }

  /** The hovered or selected number, and its computation. */
  function explain(): void {
    const { cut, mel, way, token } = shown;
    const i = pointed ?? within(tell.now().number, numbers(cut, way), 0);
    operands.replaceChildren();
    if (way === "frames") {
      const t = token * cut.window + i;
      formula.replaceChildren(
        ...named(i, digits(Math.fround(wave[t]))),
        unit === 1 ? "" : ` = ${digits(counted[t])} / ${whole(Math.round(1 / unit))}`,
        h("span.quiet.how", `sample ${token}·${cut.window} + ${i} = ${t}, at ${digits(Number((t / rate).toFixed(6)))} s`),
      );
      return;
    }
    const { window, band } = way === "mel" ? { window: token, band: i } : inPatch(cut, token, i);
    const value = at(mel, [window, band]);
    const [low, high] = range(cut.bands, band);
    const found = terms(wave.subarray(window * cut.hop, window * cut.hop + cut.window), cut.bands, band);
    const sum = found.reduce((total, { energy, weight }) => total + energy * weight, 0);
    formula.replaceChildren(
      ...named(i, digits(value)),
      h("span.quiet.how", `${way === "patches" ? `window ${window}, ` : ""}band ${band}: ${whole(Math.round(low))} to ${whole(Math.round(high))} Hz`), // prettier-ignore
    );
    operands.append(
      h("p", "ln(", h("b", sum < cut.bands.floor ? `${cut.bands.floor}` : digits(sum)), ") = ", h("b.again", digits(logEnergy(found, cut.bands.floor))), h("span.quiet", " recomputed here from the samples")), // prettier-ignore
      h(
        "div.scroll",
        { tabindex: 0, role: "region", "aria-label": "frequencies of the band" },
        h(
          "table",
          h("thead", h("tr", ["frequency", "energy", "weight in the band", "product"].map((text) => h("th", { scope: "col" }, text)))), // prettier-ignore
          h("tbody", found.map(({ hertz, energy, weight }) => h("tr", h("th", { scope: "row" }, `${digits(Number(hertz.toFixed(2)))} Hz`), h("td", digits(energy)), h("td", digits(weight)), h("td", digits(energy * weight))))), // prettier-ignore
        ),
      ),
      h("p.quiet", `Energy at a frequency: the squared magnitude of Σ window(t) · sample(t) · e^(−2πi·frequency·t) over the ${cut.window} samples, with a Hann window. Sums are clamped to at least ${cut.bands.floor}.`), // prettier-ignore
    );
  }

  return {
    element,
    player,
    wave,
    leave: () => player.stop(),
    draw() {
      shown = read();
      pointed = undefined;
      const { cut, mel, way, token } = shown;
      const now = tell.now();
      choices.replaceChildren(
        h("div.switch", { role: "group", "aria-label": "tokenization" }, WAYS.filter((each) => count(cut, each)).map((each) => h("button", { type: "button", "aria-pressed": String(each === way), onclick: () => take({ way: each }) }, TITLES[each]))), // prettier-ignore
        select("window", record.cuts.map(({ window_ms, hop_ms }, i) => ({ name: String(i), title: `${digits(window_ms)} ms, every ${digits(hop_ms)} ms` })), String(record.cuts.indexOf(cut)), (value) => take({ cut: Number(value) })), // prettier-ignore
      );
      if (lasts > SPANS[SPANS.length - 1])
        choices.append(select("in view", [0, ...SPANS.filter((span) => span < lasts)].map((span) => ({ name: String(span), title: span ? `${span} s` : "all" })), String(now.span), (value) => tell.set({ span: Number(value) }))); // prettier-ignore
      const [begin, end] = own();
      summary.textContent = description(cut, way, rate);
      title.textContent = `Token ${whole(token)}: ${TITLES[way]}`;
      const seconds = at(
        unpack(way === "frames" ? cut.frame_positions : way === "mel" ? cut.mel_positions : cut.patch_positions!),
        [token, 0],
      );
      const middle = way === "patches" ? `, band ${digits(at(unpack(cut.patch_positions!), [token, 1]))}` : "";
      where.replaceChildren(
        "Its position is ",
        h("b.seconds", `${digits(seconds)} s${middle}`),
        `, the middle of its ${whole(end - begin)} samples, from ${digits(Number((begin / rate).toFixed(6)))} to ${digits(Number((end / rate).toFixed(6)))} s.`,
      );
      view.draw(shown);
      if (player.playing && player.last?.loop && (player.last.begin !== begin || player.last.samples !== end - begin))
        player.play(begin, end, true); // the loop follows the selection
      const number = within(now.number, numbers(cut, way), 0);
      row.element.hidden = way === "patches";
      square.element.hidden = way !== "patches";
      const bands = mel.shape[1];
      if (way === "frames")
        row.draw({ values: wave.subarray(begin, end), base: 0, chosen: number, label: `The ${cut.window} samples of the token. Arrow keys select one.` }); // prettier-ignore
      else if (way === "mel")
        row.draw({ values: mel.data.subarray(token * bands, (token + 1) * bands), base: Math.log(cut.bands.floor), chosen: number, label: `The ${bands} energies of the token, low bands first. Arrow keys select one.` }); // prettier-ignore
      else {
        const [windows, high] = cut.patch!;
        const paint = loudness(mel.data);
        square.draw({
          rows: high,
          columns: windows,
          side: Math.floor(288 / windows),
          chosen: turned(cut, number, true),
          label: `The ${windows} windows by ${high} bands of the token, low bands below. Arrow keys select a number.`,
          colour: (i) => {
            const { window, band } = inPatch(cut, token, turned(cut, i));
            return paint(mel.data[window * bands + band]);
          },
        });
      }
      explain();
      table.draw(WAYS.filter((each) => count(cut, each)).map((each) => ({ name: TITLES[each], tokens: count(cut, each), numbers: numbers(cut, each), pressed: each === way, pick: () => take({ way: each }) }))); // prettier-ignore
    },
  };
}

const named = (i: number, value: string): Node[] => [h("i.sym", "x", h("sub", String(i))), document.createTextNode(" = "), h("b.value", value)]; // prettier-ignore

/** A number of a patch (by window, then band) as a square of its picture (high bands above, time across), and back. */
export function turned(cut: Pick<SoundCut, "patch">, i: number, back = false): number {
  const [windows, bands] = cut.patch!;
  if (back) return (bands - 1 - (i % bands)) * windows + Math.floor(i / bands);
  return (i % windows) * bands + (bands - 1 - Math.floor(i / windows));
}

function description(cut: SoundCut, way: "frames" | "mel" | "patches", rate: number): string {
  const [window, hop] = [cut.window, cut.hop].map((samples) => `${samples} samples (${digits((1000 * samples) / rate)} ms)`);
  if (way === "frames")
    return `Every ${window} are a token, unchanged. The waveform is complete, but the frequencies are not explicit.`;
  const bands = cut.mel.shape[1];
  if (way === "mel")
    return `A token every ${hop}: the log energies of ${bands} mel bands in ${window} around it. Neighbours overlap.`;
  return `Patches of the spectrogram are tokens, as with a picture: ${cut.patch![0]} windows of time by ${cut.patch![1]} of the ${bands} bands.`;
}

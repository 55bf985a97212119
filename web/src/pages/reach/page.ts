// The page of reach: which outputs depend on a token, what training changes, and the time of each network.
import type { Reach } from "../../core/contract";
import { plot } from "../../charts/plot";
import type { Mark, Series } from "../../charts/series";
import { asPart, button, h, slider } from "../../core/dom";
import { scientific } from "../../core/format";
import { save } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { back, Effects, stepsAt, tokensBack } from "./effect";
import { rows, sentences } from "./rows";
import { type ReachState, shortest, stateOf, WEIGHTS } from "./state";

const HINT = "Point at a curve or use the arrow keys.";
const LARGEST_ZERO = 1e-14; // below it, a curve of effects is rounding
const [LEAST, MOST] = [1e-6, 3]; // of the curves of effects, for all weights and lengths

export interface ReachPage extends Store<ReachState> {
  record: Reach;
  effects: Effects;
}

export function mount(record: Reach, root: HTMLElement): ReachPage {
  const effects = new Effects(record);
  const page: ReachPage = Object.assign(new Store(stateOf(record)), { record, effects });
  const text = rows(
    effects,
    () => page.state,
    (change) => page.set(change),
  );
  const [distance, recall, time] = [distanceSection(page), recallSection(page), timeSection(page)];
  const lines = h("div.sentences", { role: "status" });
  const controls = h("div.controls");

  function drawControls(): void {
    const { state } = page;
    const focused = (document.activeElement as HTMLElement | null)?.dataset.weights;
    if (controls.contains(document.activeElement) && !focused) return; // the slider of the length is being moved
    controls.replaceChildren(
      h(
        "div.buttons",
        { role: "group", "aria-label": "weights" },
        WEIGHTS.map((weights) =>
          button(`${weights} weights`, `Show the networks with ${weights} weights`, () => page.set({ weights }), {
            "aria-pressed": String(weights === state.weights),
            "data-weights": weights,
          }),
        ),
      ),
      slider("tokens in the text", [shortest(record), record.length], state.length, (length, step) =>
        page.set({ length, token: Math.min(page.state.token, length - 1) }, { step }),
      ),
    );
    if (focused) controls.querySelector<HTMLElement>(`[data-weights="${focused}"]`)?.focus();
  }

  function draw(): void {
    drawControls();
    text.draw();
    const { token } = page.state;
    lines.replaceChildren(
      h("p", `Token ${token} is replaced: ${tokensBack(back(page.state))}.`),
      ...sentences(effects, page.state),
    );
    for (const section of [distance, recall, time]) section.draw();
  }

  document.body.classList.add("reach");
  root.replaceChildren(
    asPart(
      "title",
      h(
        "header",
        navigation("reach"),
        h("h1", record.title),
        h("p.lede", record.summary),
        h("p.quiet", "Tokens are counted from 0."),
      ),
    ),
    h(
      "main",
      { id: "story" },
      asPart(
        "reach",
        h(
          "section.part",
          heading("What depends on one token?", "reach"),
          controls,
          text.element,
          h("p.quiet", "A bar is the change of an output, relative to its size, on a logarithmic scale: a whole bar is 1, no bar is 10⁻¹² or less, or exactly 0."), // prettier-ignore
          lines,
        ),
      ),
      asPart("distance", distance.element),
      asPart("recall", recall.element),
      asPart("time", time.element),
      asPart(
        "notes",
        h(
          "section.part",
          h("h2", "What was measured"),
          h(
            "ul",
            (record.notes ?? []).map((note) => h("li", note)),
            h("li", `Measured by python -m equiscope.study.recall on ${record.cpu}, one thread, torch ${record.torch}.`),
          ),
        ),
      ),
    ),
    h("footer", { "data-part": "footer" }, "equiscope: this page shows recorded measurements. It works offline and sends no data."),
  );
  page.onChange(draw);
  draw();
  return page;
}

function heading(title: string, file: string): HTMLElement {
  const head: HTMLElement = h(
    "div.head",
    h("h2", title),
    button("⤓ save", "Save this part as an SVG picture", () => save(head.parentElement!, `equiscope-${file}`, "svg"), {
      class: "keep",
    }),
  );
  return head;
}

interface Section {
  element: HTMLElement;
  draw(): void;
}

/** The last output of the text, by the distance to the replaced token. */
function distanceSection(page: ReachPage): Section {
  const { record, effects } = page;
  const chosen = h("p.quiet", { role: "status" }, HINT);
  const curve = plot("effect on the last output, by distance", (mark) => {
    const found = mark && series()[mark.series]?.marks[mark.mark];
    chosen.textContent = found ? found.sentence : HINT;
  });
  const series = (): Series[] =>
    record.networks.map((network, look) => ({
      look,
      name: network.title,
      line: "marks",
      signs: "few",
      marks: Array.from({ length: page.state.length }, (_, far): Mark => {
        const effect = effects.at(network.name, page.state.weights, page.state.length - 1 - far, page.state.length - 1);
        return { x: far, y: effect, sentence: `${network.title}, ${tokensBack(far)}: ${scientific(effect)}` };
      }).filter(({ y }) => y! > LARGEST_ZERO),
    }));
  return {
    element: h("section.part", heading("The last output, by distance", "distance"), curve.element, chosen),
    draw: () =>
      curve.draw({
        names: "ends",
        series: series(),
        x: { title: "tokens before the last one", range: [0, page.state.length - 1] },
        y: { title: "change of the last output, relative", log: true, range: [LEAST, MOST], text: power },
      }),
  };
}

/** The share of right answers, by the distance to the marked token, of every seed. */
function recallSection(page: ReachPage): Section {
  const { record } = page;
  const chosen = h("p.quiet", { role: "status" }, HINT);
  const guess = 1 / record.symbols.length;
  const series = (): Series[] =>
    record.networks.map((network, look) => ({
      look,
      name: network.title,
      line: "marks",
      signs: "few",
      threads: network.right[page.state.weights].slice(1).map((curve) => curve.map((y, x): [number, number] => [x, y])),
      marks: network.right[page.state.weights][0].map((share, far) => ({
        x: far,
        y: share,
        sentence: `${network.title}, ${tokensBack(far)}: ${Math.round(100 * share)} % right`,
      })),
    }));
  const curve = plot("right answers, by distance", (mark) => {
    const found = mark && series()[mark.series]?.marks[mark.mark];
    chosen.textContent = found ? found.sentence : HINT;
  });
  const title = h("p");
  return {
    element: h("section.part", heading("Who answers right?", "recall"), title, curve.element, chosen),
    draw() {
      const { weights } = page.state;
      const count = record.networks[0].right[weights].length;
      title.textContent = `Texts of ${record.length} tokens, ${weights} weights. Guessing gives ${(100 * guess).toFixed(1)} %. Thick lines: the networks of this page; thin lines: ${count - 1} other seeds.`; // prettier-ignore
      curve.draw({
        names: "ends",
        series: series(),
        x: { title: "tokens between the marked one and the last", range: [0, record.length - 1] },
        y: { title: "share of right answers", range: [0, 1] },
      });
    },
  };
}

/** Products that wait for each other, and milliseconds. */
function timeSection(page: ReachPage): Section {
  const { record } = page;
  const series: Series[] = record.networks.map((network, look) => ({
    look,
    name: network.title,
    line: "marks",
    signs: "few",
    band: true,
    marks: record.timed_lengths.map((length, i): Mark => {
      const [low, median, high] = network.times[i];
      return { x: length, y: median, low, high, sentence: `${network.title}, ${length} tokens: ${ms(median)}` };
    }),
  }));
  const curve = plot("milliseconds of one pass, by length", (mark) => {
    const length = mark && series[mark.series].marks[mark.mark].x;
    if (length && length !== page.state.timed) page.set({ timed: length });
  });
  const body = h("tbody");
  const at = () => record.timed_lengths.indexOf(page.state.timed);
  const longer = slider(
    "tokens in the text",
    [0, record.timed_lengths.length - 1],
    at(),
    (i, step) => page.set({ timed: record.timed_lengths[i] }, { step }),
    (i) => String(record.timed_lengths[i]),
  );
  const input = longer.querySelector("input")!;
  return {
    element: h(
      "section.part",
      heading("Steps and time", "time"),
      h("div.controls", longer),
      h(
        "div.scroll",
        h(
          "table",
          h(
            "thead",
            h(
              "tr",
              ["network", "products that wait for each other", "one pass"].map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          body,
        ),
      ),
      curve.element,
      h("p.quiet", `CPU time of one text, forward, ${record.timed_width} wide, ${record.dtype}, one thread of ${record.cpu}, torch ${record.torch}; medians of ${record.rounds} calls made turn by turn.`), // prettier-ignore
    ),
    draw() {
      const length = page.state.timed;
      input.value = String(at());
      longer.querySelector("output")!.textContent = String(length);
      body.replaceChildren(
        ...record.networks.map((network, look) =>
          h(
            "tr",
            { "data-look": look, "data-network": network.name },
            h("th", { scope: "row" }, network.title),
            h("td", { "data-steps": stepsAt(network, record, length) }, stepsAt(network, record, length).toLocaleString("en")),
            h("td", ms(network.times[at()][1])),
          ),
        ),
      );
      curve.draw({
        names: "ends",
        series,
        x: { title: "tokens in the text", log: true, ticks: record.timed_lengths },
        y: { title: "milliseconds of one pass", log: true },
      });
    },
  };
}

/** 10⁻⁴, a power of ten on an axis. */
const power = (value: number): string => scientific(value).replace("1.0·", "");

const ms = (value: number): string => `${value >= 100 ? value.toFixed(0) : value.toPrecision(3)} ms`;

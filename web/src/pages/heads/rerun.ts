// Rerun: the machine that serves the page runs the model again, on the same tokens in another order or at other positions. The page
// shows how far the weights of each layer change, beside the rounding floor.
import type { Rerun, Heads } from "../../core/contract";
import { button, h } from "../../core/dom";
import { whether } from "../../widgets/verdict";
import { layerName } from "./mosaic";
import { LatestRequest, type Fetcher } from "../../core/latest_request";
import type { HeadsPage } from "./page";

const [FIRST, ROWS] = [100, 24]; // the shift at first; layers that are listed at first
const FAR = 1000; // the largest shift of the slider; the field beside it takes more

/** A random permutation that is not the identity. */
export function shuffled(count: number, chance: () => number = Math.random): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  do
    for (let i = count - 1; i > 0; i--) {
      const j = Math.floor(chance() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
  while (count > 1 && order.every((from, i) => from === i));
  return order;
}

/** The first layer whose weights change by more than the rounding floor; undefined where none does. */
export const firstChangedLayer = ({
  max_differences: differences,
  rounding_floors: floors,
}: Pick<Rerun, "max_differences" | "rounding_floors">): number | undefined => {
  const first = differences.findIndex((difference, layer) => difference > floors[layer]);
  return first < 0 ? undefined : first;
};

const small = (value: number): string => (value === 0 ? "0" : value < 1e-3 ? value.toExponential(1) : value.toFixed(4));

/** The outcome as one sentence. */
export function rerunSummary(again: Rerun, name: (layer: number) => string): string {
  const what = again.order.length ? (again.offset ? "the shuffle and the shift" : "the shuffle") : "the shift";
  const first = firstChangedLayer(again);
  const most = Math.max(...again.max_differences);
  if (first === undefined) {
    const property = again.order.length ? "equivariant to" : "invariant to";
    return `Every layer is ${property} ${what}: no weight differs by more than ${small(most)}, which is within rounding.`;
  }
  return `${name(first)} is the first layer that changes under ${what}: a weight differs by ${small(again.max_differences[first])}; the rounding floor is ${small(again.rounding_floors[first])}.`;
}

export function rerunPanel(page: HeadsPage, ask?: Fetcher): HTMLElement | undefined {
  const { rerun_options: live, served } = page.record;
  if (!live) return undefined;
  const heading = h("h2", "Rerun: shuffle or shift the tokens");
  if (!served) {
    const where = "This file does not contain the model. Run the same command without --export: the served page can shuffle or shift the tokens and run the model again."; // prettier-ignore
    return h("section.part.rerun", { "data-part": "rerun" }, heading, h("p.quiet", where));
  }
  const { sequence: line, no_shuffle: shuffle, no_shift: slide } = live;
  const status = h("p.summary", { role: "status" });
  const result = h("div.rerun-result");
  const by = h<HTMLInputElement>("input", { type: "number", min: 1, max: 1000000, step: 1, value: FIRST, "aria-label": "shift in positions" }); // prettier-ignore
  const drag = h<HTMLInputElement>("input", { type: "range", min: 1, max: FAR, step: 1, value: FIRST, "aria-label": "drag to shift the text" }); // prettier-ignore
  const rerunShifted = () => void run(`offset=${encodeURIComponent(by.value)}`);
  drag.oninput = () => {
    by.value = drag.value;
    rerunShifted(); // requests for the values passed on the way are stale
  };
  by.oninput = () => (drag.value = by.value);
  const newest = new LatestRequest(ask);
  let clock = 0;

  async function run(question: string): Promise<void> {
    const began = performance.now();
    const showProgress = () => {
      const seconds = Math.round((performance.now() - began) / 1000);
      status.textContent = `The model runs … ${seconds ? `${seconds} s` : ""}`;
    };
    clearInterval(clock);
    clock = window.setInterval(showProgress, 1000);
    showProgress();
    stop.hidden = false;
    try {
      const record = await newest.get<Heads>(`/rerun?${question}`);
      if (!record) return;
      page.renew(record);
      finish("");
      result.replaceChildren(...results(page.record));
    } catch (error) {
      finish((error as Error).message);
    }
  }

  /** Stop waiting. */
  function finish(message: string): void {
    newest.drop();
    clearInterval(clock);
    stop.hidden = true;
    status.textContent = message;
  }

  const length = () => page.first.sequences[line].labels.length;
  const stop = button("Cancel", "Do not wait for the result", () => finish("Cancelled."));
  stop.hidden = true;
  const back = button("Back to the first run", "Show the original order and positions", () => {
    finish("");
    page.renew(page.first);
    result.replaceChildren();
  });

  function results(record: Heads): HTMLElement[] {
    const again = record.rerun!;
    const name = (layer: number) => {
      const title = layerName(record, layer);
      return title.charAt(0).toUpperCase() + title.slice(1);
    };
    const moved = [again.order.length && "in another order", again.offset && `shifted by ${again.offset.toLocaleString("en")} positions`].filter(Boolean).join(", "); // prettier-ignore
    const body = h("tbody");
    const most = Math.max(...again.max_differences, 1e-12);
    const row = (difference: number, layer: number) =>
      h(
        "tr",
        { "data-changed": String(difference > again.rounding_floors[layer]) },
        h("th", { scope: "row" }, name(layer)),
        h("td.far", { style: `--share:${(difference / most).toFixed(3)}` }, small(difference)),
        h("td", small(again.rounding_floors[layer])),
        h("td", whether(difference <= again.rounding_floors[layer])),
      );
    const fill = (count: number) => body.replaceChildren(...again.max_differences.slice(0, count).map(row));
    fill(ROWS);
    const all = button(`All ${again.max_differences.length} layers`, "Show every layer", () => {
      fill(again.max_differences.length);
      all.hidden = true;
    });
    all.hidden = again.max_differences.length <= ROWS;
    const how = again.order.length
      ? "Difference: the largest |weight − weight| of any head between this run and the first one, with rows and columns permuted as the tokens."
      : "Difference: the largest |weight − weight| of any head between this run and the first one.";
    return [
      h("p.lede", h("b", rerunSummary(again, name))),
      h("p", `Everything below shows run ${again.run}: the tokens ${moved}. `, back),
      h("div.scroll", { tabindex: 0, role: "region", "aria-label": "difference of each layer" }, h("table", h("caption.spoken", "Difference of each layer"), h("thead", h("tr", ["layer", "difference", "rounding floor", "verdict"].map((title) => h("th", { scope: "col" }, title)))), body)), // prettier-ignore
      h("div.buttons", all),
      h("p.quiet", `${how} The rounding floor is measured: the first run again with the output of every module off by one unit in the last place, times 4${again.offset ? "; for a shift, plus the rounding of angles at such positions" : ""}.`), // prettier-ignore
    ];
  }

  return h(
    "section.part.rerun",
    { "data-part": "rerun" },
    heading,
    h("p.quiet", "The machine that serves this page runs the model again. A model that is invariant to positions gives the same weights, moved with the tokens."), // prettier-ignore
    h(
      "div.rerun-controls",
      shuffle
        ? h("p.quiet", `No shuffle: ${shuffle}`)
        : button("Shuffle the tokens", "Run the model on the same tokens in another order", () => void run(`order=${shuffled(length()).join(",")}`)), // prettier-ignore
      slide
        ? h("p.quiet", `No shift: ${slide}`)
        : h("span.shift", button("Shift the text", "Run the model on the same tokens at later positions", rerunShifted), h("label", " by ", by, " positions"), drag), // prettier-ignore
      stop,
    ),
    status,
    result,
  );
}

// The model runs again, on the machine that serves the page: its tokens in another order, or the text at other places. What its
// weights say to that is measured, layer by layer, beside what rounding may make.
import type { Again, Heads } from "../contract";
import { button, h } from "../dom";
import { called } from "./mosaic";
import { Newest, type Asking } from "./latest_request";
import type { Reading } from "./page";

const [FIRST, ROWS] = [100, 24]; // places that a text is slid by at first; layers that are listed at first
const FAR = 1000; // places at the right end of the slider; the field beside it takes more

/** Every place once, by chance, and never all of them where they were. */
export function shuffled(count: number, chance: () => number = Math.random): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  do
    for (let i = count - 1; i > 0; i--) {
      const j = Math.floor(chance() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
  while (count > 1 && order.every((place, i) => place === i));
  return order;
}

/** The first layer that notices; nothing where none does. */
export const notices = ({ differs, floor }: Pick<Again, "differs" | "floor">): number | undefined => {
  const found = differs.findIndex((far, layer) => far > floor[layer]);
  return found < 0 ? undefined : found;
};

const small = (value: number): string => (value === 0 ? "0" : value < 1e-3 ? value.toExponential(1) : value.toFixed(4));

/** What the weights said, as one sentence. */
export function told(again: Again, name: (layer: number) => string): string {
  const what = again.order.length ? (again.start ? "the shuffle and the slide" : "the shuffle") : "the slide";
  const first = notices(again);
  const most = Math.max(...again.differs);
  if (first === undefined) {
    const how = again.order.length ? "every weight moved with its tokens" : "every weight stayed what it was";
    return `No layer notices ${what}: ${how}, to ${small(most)}, which rounding explains.`;
  }
  return `${name(first)} is the first to notice ${what}: a weight differs by ${small(again.differs[first])}, where rounding may make ${small(again.floor[first])}.`;
}

export function moving(page: Reading, ask?: Asking): HTMLElement | undefined {
  const { live, served } = page.record;
  if (!live) return undefined;
  const heading = h("h2", "Move the tokens");
  if (!served) {
    const where = "This is a file, and the model is not in it. The command that made it, without --export, serves a page on which the tokens can be shuffled and the text slid: the model then runs again."; // prettier-ignore
    return h("section.part.moving", heading, h("p.quiet", where));
  }
  const { line, shuffle, slide } = live;
  const status = h("p.said", { role: "status" });
  const result = h("div.answered");
  const by = h<HTMLInputElement>("input", { type: "number", min: 1, max: 1000000, step: 1, value: FIRST, "aria-label": "places that the text is slid by" }); // prettier-ignore
  const drag = h<HTMLInputElement>("input", { type: "range", min: 1, max: FAR, step: 1, value: FIRST, "aria-label": "drag to slide the text" }); // prettier-ignore
  const slideBy = () => void run(`from=${encodeURIComponent(by.value)}`);
  drag.oninput = () => {
    by.value = drag.value;
    slideBy(); // what was asked for on the way is stale
  };
  by.oninput = () => (drag.value = by.value);
  const newest = new Newest(ask);
  let clock = 0;

  async function run(question: string): Promise<void> {
    const began = performance.now();
    const tell = () => {
      const seconds = Math.round((performance.now() - began) / 1000);
      status.textContent = `The model runs … ${seconds ? `${seconds} s` : ""}`;
    };
    clearInterval(clock);
    clock = window.setInterval(tell, 1000);
    tell();
    stop.hidden = false;
    try {
      const found = await newest.get<Heads>(`/again?${question}`);
      if (!found) return;
      page.renew(found);
      settle("");
      result.replaceChildren(...results(page.record));
    } catch (error) {
      settle((error as Error).message);
    }
  }

  /** Nothing is waited for any more. */
  function settle(said: string): void {
    newest.drop();
    clearInterval(clock);
    stop.hidden = true;
    status.textContent = said;
  }

  const length = () => page.first.lines[line].labels.length;
  const stop = button("Leave it", "Do not wait for the answer", () => settle("The answer will be dropped."));
  stop.hidden = true;
  const back = button("Back to the first run", "Show the tokens where they were", () => {
    settle("");
    page.renew(page.first);
    result.replaceChildren();
  });

  function results(record: Heads): HTMLElement[] {
    const again = record.again!;
    const name = (layer: number) => {
      const title = called(record, layer, 0).replace(/, head 1$/, "");
      return title.charAt(0).toUpperCase() + title.slice(1);
    };
    const whose = [again.order.length && "in another order", again.start && `slid by ${again.start.toLocaleString("en")} places`].filter(Boolean).join(", "); // prettier-ignore
    const body = h("tbody");
    const most = Math.max(...again.differs, 1e-12);
    const row = (far: number, layer: number) =>
      h(
        "tr",
        { "data-notices": String(far > again.floor[layer]) },
        h("th", { scope: "row" }, name(layer)),
        h("td.far", { style: `--share:${(far / most).toFixed(3)}` }, small(far)),
        h("td", small(again.floor[layer])),
        h("td", far > again.floor[layer] ? "notices" : "does not notice"),
      );
    const fill = (count: number) => body.replaceChildren(...again.differs.slice(0, count).map(row));
    fill(ROWS);
    const all = button(`All ${again.differs.length} layers`, "Show every layer", () => {
      fill(again.differs.length);
      all.hidden = true;
    });
    all.hidden = again.differs.length <= ROWS;
    const how = again.order.length
      ? "Differs: the largest |weight − weight| of any head between this run and the first one, whose rows and columns were moved as the tokens were."
      : "Differs: the largest |weight − weight| of any head between this run and the first one.";
    return [
      h("p.lede", h("b", told(again, name))),
      h("p", `Everything below shows run ${again.run}: the tokens ${whose}. `, back),
      h("div.scroll", { tabindex: 0, role: "region", "aria-label": "layers and what they notice" }, h("table", h("caption.spoken", "Layers and what they notice"), h("thead", h("tr", ["layer", "differs", "rounding may make", "so it"].map((title) => h("th", { scope: "col" }, title)))), body)), // prettier-ignore
      h("div.buttons", all),
      h("p.quiet", `${how} What rounding may make is measured: the first run again, every module's output wrong by one unit in its last place, times 4${again.start ? "; for a slide with what rounding makes of angles at such places" : ""}.`), // prettier-ignore
    ];
  }

  return h(
    "section.part.moving",
    heading,
    h("p.quiet", "The model runs again on the machine that serves this page. A model that does not notice where a token stands gives the same weights, moved."), // prettier-ignore
    h(
      "div.moves",
      shuffle
        ? h("p.quiet", `No shuffle: ${shuffle}`)
        : button("Shuffle the tokens", "Run the model on the same tokens in another order", () => void run(`order=${shuffled(length()).join(",")}`)), // prettier-ignore
      slide
        ? h("p.quiet", `No slide: ${slide}`)
        : h("span.slide", button("Slide the text", "Run the model on the same tokens, each at a later place", slideBy), h("label", " by ", by, " places"), drag), // prettier-ignore
      stop,
    ),
    status,
    result,
  );
}

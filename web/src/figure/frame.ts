// Runs first in every page, and acts where the page stands in a frame: what a person chooses is kept in memory, sent to the document
// around it, and taken from there. A notebook's frame has no server, so questions go to the notebook too. No page depends on that.
import type { Goals, Marked } from "../core/goals";
import { HELLO, linkOf, viewOf, type FromPage, type ToPage } from "./messages";
import { present } from "./view";

function framed(given: string): void {
  const { dataset } = document.documentElement; // where the page reads what is chosen
  const waiting = new Map<number, (answer: Response) => void>();
  const view = viewOf(given);
  let port: MessagePort | undefined;
  let asked = 0;

  const tell = (message: FromPage): void => port?.postMessage(message);

  function keep(link: string): void {
    if (link === dataset.link) return;
    dataset.link = link;
    tell({ link, acted: navigator.userActivation?.hasBeenActive ?? true });
  }

  /** Show what somebody else has chosen. */
  function choose(link: string): void {
    const before = dataset.link ?? "";
    if (link === before) return;
    keep(link);
    dispatchEvent(new HashChangeEvent("hashchange"));
    if (head(link) && head(link) !== head(before)) reveal();
  }

  // Such a page may have neither address nor history, and going back would take the whole document back.
  history.pushState = history.replaceState = (_state, _title, address) => keep(linkOf(String(address ?? "")));

  addEventListener("hashchange", ({ isTrusted }) => isTrusted && keep(viewOf(linkOf(location.href)).link)); // another link in the frame

  // An address without a page is one of the document around: it would be opened in the frame.
  addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    choose(linkOf(link.getAttribute("href")!));
  });

  if (location.protocol === "about:")
    window.fetch = (address, options) =>
      new Promise((answer, fail) => {
        if (!port) return fail(new TypeError("there is no model behind this copy of the page"));
        const number = ++asked;
        options?.signal?.addEventListener("abort", () => {
          waiting.delete(number);
          tell({ drop: number });
          fail(new DOMException("Nobody waits for it any more.", "AbortError"));
        });
        waiting.set(number, answer);
        tell({ ask: String(address), number });
      });

  function heard({ data }: MessageEvent<ToPage>): void {
    if ("link" in data) return choose(data.link);
    if ("goal" in data) return void drawn.then(() => mark(data.goal, data.number));
    if ("below" in data) return document.documentElement.style.setProperty("--below", `${data.below}px`);
    waiting.get(data.number)?.(new Response(data.body, { status: data.status }));
    waiting.delete(data.number);
  }

  async function mark(goal: string, number: number): Promise<void> {
    const goals = (globalThis as { equiscope?: { goals?: Goals<Marked | Promise<Marked>> } }).equiscope?.goals ?? {};
    try {
      tell({ number, marked: Object.hasOwn(goals, goal) ? await goals[goal]() : Object.keys(goals) });
    } catch (error) {
      tell({ number, marked: { right: false, says: error instanceof Error ? error.message : String(error) } });
    }
  }

  addEventListener("message", (event) => {
    if (event.source !== parent || event.data !== HELLO || !event.ports.length) return;
    port?.close();
    port = event.ports[0];
    port.onmessage = heard;
    const { body } = document;
    new ResizeObserver(() => tell({ height: body.getBoundingClientRect().height })).observe(body);
  });

  if (view.figure) {
    present(view.parts);
    const show = (element: Element): void => {
      const { top, bottom } = element.getBoundingClientRect();
      tell({ show: [top, bottom] });
    };
    const scroll = Element.prototype.scrollIntoView;
    Element.prototype.scrollIntoView = function (how) {
      scroll.call(this, how);
      show(this); // a frame as high as its page has nothing to scroll: the document around has
    };
    addEventListener("focusin", ({ target }) => target instanceof Element && target.matches(":focus-visible") && show(target));
  }
  const drawn = whenDrawn();
  keep(view.link);
}

/** When the page has read its record and shows it. */
const whenDrawn = (): Promise<void> =>
  new Promise((done) => {
    const seen = new MutationObserver(() => {
      if (!document.querySelector("#app main")) return;
      seen.disconnect();
      done();
    });
    seen.observe(document, { childList: true, subtree: true });
  });

const head = (link: string): string | null => new URLSearchParams(link).get("head");

/** A cell may be lower than its page: the chosen head is brought into sight, as soon as it is there. The notebook itself stays. */
function reveal(): void {
  const look = () => {
    const found = document.querySelector(".detail:not([hidden])");
    if (!found) return;
    seen.disconnect();
    setTimeout(() => {
      const { scrollHeight } = document.documentElement; // what stands above it has found its size
      if (scrollHeight > innerHeight + 1) found.scrollIntoView({ block: "start" });
    }, 100);
  };
  const seen = new MutationObserver(look);
  seen.observe(document, { subtree: true, childList: true, attributeFilter: ["hidden"] });
  look();
}

const given = document.currentScript?.dataset.link; // of a page without an address
if (parent !== window) framed(given || linkOf(location.href));
else if (given) history.replaceState(null, "", `#${given}`);

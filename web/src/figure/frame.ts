// Runs first in a page that stands in a frame: such a page has no address of its own, so what a person chooses is kept here, sent to
// the notebook, and taken from it; and there is no server, so questions go to the notebook too. The page itself does not depend on that.
import { HELLO, linkOf, type FromPage, type ToPage } from "./messages";

const replace = history.replaceState.bind(history);
const waiting = new Map<number, (answer: Response) => void>();
let port: MessagePort | undefined;
let asked = 0;

const tell = (message: FromPage): void => port?.postMessage(message);

/** Keep what is chosen in the frame's address. */
function keep(link: string): void {
  if (link === linkOf(location.href)) return;
  replace(null, "", location.href.split("#")[0] + (link && `#${link}`));
  tell({ link });
}

/** Show what somebody else has chosen. */
function choose(link: string): void {
  const before = linkOf(location.href);
  if (link === before) return;
  keep(link);
  dispatchEvent(new HashChangeEvent("hashchange"));
  if (head(link) && head(link) !== head(before)) reveal();
}

const head = (link: string): string | null => new URLSearchParams(link).get("head");

/** A cell is lower than its page: the chosen head is brought into sight, as soon as it is there. The notebook itself stays. */
function reveal(): void {
  const look = () => {
    const found = document.querySelector(".detail:not([hidden])");
    if (!found) return;
    seen.disconnect();
    setTimeout(() => found.scrollIntoView({ block: "start" }), 100); // what stands above it has found its size
  };
  const seen = new MutationObserver(look);
  seen.observe(document, { subtree: true, childList: true, attributeFilter: ["hidden"] });
  look();
}

// Going back would take the whole notebook back, so that no choice makes a step of it.
history.pushState = history.replaceState = (_state, _title, address) => keep(linkOf(String(address ?? "")));

// An address without a page is one of the notebook's: it would be opened in the frame.
addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
  if (!link || event.defaultPrevented) return;
  event.preventDefault();
  choose(linkOf(link.getAttribute("href")!));
});

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
  waiting.get(data.number)?.(new Response(data.body, { status: data.status }));
  waiting.delete(data.number);
}

addEventListener("message", (event) => {
  if (event.source !== parent || event.data !== HELLO || !event.ports.length) return;
  port?.close();
  port = event.ports[0];
  port.onmessage = heard;
  const { body } = document;
  new ResizeObserver(() => tell({ height: body.getBoundingClientRect().height })).observe(body);
});

const first = document.currentScript?.dataset.link;
if (first) choose(first);

// The page in a cell of a notebook, as anywidget wants it: a frame that holds the whole page, and what passes between it and Python.
// In a frame neither the notebook's style reaches the page nor the page's the notebook; sandboxed, no word on the page can either.
import { bright, fitting, HELLO, type FromPage, type ToPage } from "./messages";

/** What anywidget gives of its model. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(message: unknown): void;
  on(event: string, listener: (...given: any[]) => void): void;
  off(event: string, listener: (...given: any[]) => void): void;
}

interface Answer {
  view: string;
  number: number;
  status: number;
}

let views = 0;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const view = `${++views}-${Math.random().toString(36).slice(2)}`; // of several on the same model, whose question it was
  const dropped = new Set<number>();
  const frame = document.createElement("iframe");
  let port: MessagePort | undefined;

  const tell = (message: ToPage): void => port?.postMessage(message);
  const chosen = () => tell({ link: String(model.get("link")) });
  const answered = (answer: Answer, buffers: (DataView | ArrayBuffer)[]) => {
    if (answer.view !== view || dropped.delete(answer.number)) return;
    tell({ number: answer.number, status: answer.status, body: new TextDecoder().decode(buffers[0]) });
  };
  const heard = ({ data }: MessageEvent<FromPage>) => {
    if ("link" in data) {
      if (data.link === model.get("link")) return;
      model.set("link", data.link);
      model.save_changes();
    } else if ("height" in data) frame.style.height = `${fitting(data.height, Number(model.get("height")))}px`;
    else if ("ask" in data) ask(data.ask, data.number);
    else dropped.add(data.drop);
  };
  function ask(address: string, number: number): void {
    try {
      model.send({ view, number, ask: address });
    } catch {
      tell({ number, status: 503, body: "the notebook has no kernel" });
    }
  }

  frame.title = String(model.get("_title"));
  frame.setAttribute("sandbox", "allow-scripts allow-downloads"); // without allow-same-origin: the notebook is out of reach
  frame.setAttribute("allow", "clipboard-write");
  frame.style.cssText = "display:block;width:100%;height:480px;border:0;border-radius:8px";
  frame.addEventListener("load", () => {
    const channel = new MessageChannel(); // a frame that was moved in the notebook is loaded again
    port?.close();
    port = channel.port1;
    port.onmessage = heard;
    frame.contentWindow!.postMessage(HELLO, "*", [channel.port2]); // "*": a sandboxed page has no origin to name
    chosen();
  });
  model.on("change:link", chosen);
  model.on("msg:custom", answered);
  const away = themed(frame, el);
  frame.srcdoc = String(model.get("_page"));
  el.replaceChildren(frame);
  return () => {
    away();
    port?.close();
    model.off("change:link", chosen);
    model.off("msg:custom", answered);
  };
}

/** The frame is dark where the notebook's letters are bright, whatever the notebook calls that: its page prefers what the frame is. */
function themed(frame: HTMLElement, el: HTMLElement): () => void {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true })!; // prettier-ignore
  const look = () => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = getComputedStyle(el).color;
    context.fillRect(0, 0, 1, 1);
    frame.style.colorScheme = bright(context.getImageData(0, 0, 1, 1).data) ? "dark" : "light";
  };
  const seen = new MutationObserver(() => requestAnimationFrame(look));
  for (const one of [document.documentElement, document.body]) seen.observe(one, { attributes: true });
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  preferred.addEventListener("change", look);
  requestAnimationFrame(look); // its position in the notebook
  return () => {
    seen.disconnect();
    preferred.removeEventListener("change", look);
  };
}

export default { render };

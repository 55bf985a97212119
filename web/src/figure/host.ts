// The document's side of a page in a frame, for a figure and for a cell of a notebook: the sandbox, the channel, and the theme.
import { bright, HELLO, type FromPage, type ToPage } from "./messages";

/** The channel to the page of a frame. `tell` drops what is said before the page is there. */
export interface Channel {
  tell(message: ToPage): void;
  close(): void;
}

/** A frame that reaches nothing of the document around it: neither its style nor its scripts, storage or origin. */
export function sandboxed(title: string, style: string): HTMLIFrameElement {
  const frame = document.createElement("iframe");
  frame.title = title;
  frame.setAttribute("sandbox", "allow-scripts allow-downloads"); // without allow-same-origin
  frame.setAttribute("allow", "clipboard-write");
  frame.style.cssText = `display:block;width:100%;border:0;border-radius:8px;${style}`;
  return frame;
}

/** Opens a channel whenever the frame has loaded a page: one that was moved in its document is loaded again. */
export function channel(frame: HTMLIFrameElement, heard: (message: FromPage) => void, loaded: () => void): Channel {
  let port: MessagePort | undefined;
  frame.addEventListener("load", () => {
    const { port1, port2 } = new MessageChannel();
    port?.close();
    port = port1;
    port.onmessage = ({ data }: MessageEvent<FromPage>) => heard(data);
    frame.contentWindow!.postMessage(HELLO, "*", [port2]); // "*": a sandboxed page has no origin to name
    loaded();
  });
  return { tell: (message) => port?.postMessage(message), close: () => port?.close() };
}

/** The frame is dark where the letters around it are bright, whatever the document calls that: its page prefers what the frame is. */
export function themed(frame: HTMLElement, around: Element): () => void {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true })!; // prettier-ignore
  const look = () => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = getComputedStyle(around).color;
    context.fillRect(0, 0, 1, 1);
    frame.style.colorScheme = bright(context.getImageData(0, 0, 1, 1).data) ? "dark" : "light";
  };
  const seen = new MutationObserver(() => requestAnimationFrame(look));
  for (const one of [document.documentElement, document.body]) seen.observe(one, { attributes: true });
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  preferred.addEventListener("change", look);
  requestAnimationFrame(look); // its position in the document
  return () => {
    seen.disconnect();
    preferred.removeEventListener("change", look);
  };
}

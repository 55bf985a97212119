// The page in a cell of a notebook, as anywidget wants it: a frame that holds the whole page, and what passes between it and Python.
// In a frame neither the notebook's style reaches the page nor the page's the notebook; sandboxed, no word on the page can either.
import { channel, sandboxed, themed } from "./host";
import { fitting, type FromPage } from "./messages";

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
  const frame = sandboxed(String(model.get("_title")), "height:480px");
  const chosen = () => tell({ link: String(model.get("link")) });
  const { tell, close } = channel(frame, heard, chosen);
  const answered = (answer: Answer, buffers: (DataView | ArrayBuffer)[]) => {
    if (answer.view !== view || dropped.delete(answer.number)) return;
    tell({ number: answer.number, status: answer.status, body: new TextDecoder().decode(buffers[0]) });
  };
  function heard(message: FromPage): void {
    if ("link" in message) {
      if (message.link === model.get("link")) return;
      model.set("link", message.link);
      model.save_changes();
    } else if ("height" in message) frame.style.height = `${fitting(message.height, Number(model.get("height")))}px`;
    else if ("ask" in message) ask(message.ask, message.number);
    else if ("drop" in message) dropped.add(message.drop);
  }
  function ask(address: string, number: number): void {
    try {
      model.send({ view, number, ask: address });
    } catch {
      tell({ number, status: 503, body: "the notebook has no kernel" });
    }
  }

  model.on("change:link", chosen);
  model.on("msg:custom", answered);
  const away = themed(frame, el);
  frame.srcdoc = String(model.get("_page"));
  el.replaceChildren(frame);
  return () => {
    away();
    close();
    model.off("change:link", chosen);
    model.off("msg:custom", answered);
  };
}

export default { render };

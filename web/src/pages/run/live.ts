// Poll for new entries: at once while more are waiting, each second during training, seldom without a response.
import type { RunUpdate } from "../../core/contract";

const [OFTEN, SELDOM] = [1000, 2000]; // milliseconds; at the end the server waits a little longer for the last poll
const LOST = 20000; // milliseconds, the timeout of a request: a suspended command keeps its connections open

export interface Listener {
  hear(news: RunUpdate): void;
  lost(): void; // no response
}

/** Reloads the page when another series of entries has begun. */
export function listen(series: string, known: () => number, listener: Listener): void {
  const ask = async () => {
    let wait = OFTEN;
    try {
      const answer = await fetch(`/entries?from=${known()}`, { cache: "no-store", signal: AbortSignal.timeout(LOST) });
      if (!answer.ok) throw new Error(String(answer.status));
      const news: RunUpdate = await answer.json();
      if (news.series !== series) {
        location.reload();
        return;
      }
      listener.hear(news);
      if (news.more) wait = 0;
      else if (news.state !== "running") wait = SELDOM;
    } catch {
      listener.lost();
      wait = SELDOM;
    }
    setTimeout(ask, wait);
  };
  void ask();
}

// Ask for what is new, again and again: at once while more waits, each second while it trains, seldom when nobody answers.
import type { News } from "../contract";

const [OFTEN, SELDOM] = [1000, 2000]; // milliseconds; the server waits a little longer for its last words to be heard
const LOST = 20000; // milliseconds after which an answer is not waited for: a command that was suspended keeps its connections

export interface Listener {
  hear(news: News): void;
  lost(): void; // nobody answered
}

/** The state is "over" when another series of entries has begun: the page is to be loaded again. */
export function listen(series: string, known: () => number, listener: Listener): void {
  const ask = async () => {
    let wait = OFTEN;
    try {
      const answer = await fetch(`/entries?from=${known()}`, { cache: "no-store", signal: AbortSignal.timeout(LOST) });
      if (!answer.ok) throw new Error(String(answer.status));
      const news: News = await answer.json();
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

// Questions of one kind to the command on this machine. A newer one makes the earlier stale: it is taken back, so that the command
// need not begin it, and what is answered to it all the same is dropped.

export type Asking = (address: string, options: { signal: AbortSignal }) => Promise<Response>;

export const NOBODY = "Nobody answers: see whether the command still runs, then ask again.";

export class Newest {
  private asked?: AbortController;

  constructor(private readonly ask: Asking = (address, options) => fetch(address, options)) {}

  /** What is answered; nothing where it is stale. Throws the sentence that came instead, or that nobody answers. */
  async get<T>(address: string): Promise<T | undefined> {
    this.drop();
    const mine = (this.asked = new AbortController());
    const stale = () => mine.signal.aborted;
    try {
      const answer = await this.ask(address, { signal: mine.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim() || `The command answered ${answer.status}.`);
      const found: T = await answer.json();
      return stale() ? undefined : found;
    } catch (error) {
      if (stale()) return undefined;
      throw error instanceof TypeError ? new Error(NOBODY) : error; // what fetch throws where no answer comes
    } finally {
      if (this.asked === mine) this.asked = undefined;
    }
  }

  /** Wait for no answer any more. */
  drop(): void {
    this.asked?.abort();
    this.asked = undefined;
  }
}

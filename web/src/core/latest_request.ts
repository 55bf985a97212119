// Requests of one kind to the command on this machine. A newer request aborts the earlier one, so that the command need not begin
// it, and its response is dropped.

export type Fetcher = (address: string, options: { signal: AbortSignal }) => Promise<Response>;

export const NO_RESPONSE = "No response: check whether the command still runs, then try again.";

export class LatestRequest {
  private asked?: AbortController;

  constructor(private readonly ask: Fetcher = (address, options) => fetch(address, options)) {}

  /** The response; undefined where it is stale. Throws the sentence of the command, or that there was no response. */
  async get<T>(address: string): Promise<T | undefined> {
    this.drop();
    const mine = (this.asked = new AbortController());
    const stale = () => mine.signal.aborted;
    try {
      const answer = await this.ask(address, { signal: mine.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim() || `The command responded with status ${answer.status}.`);
      const found: T = await answer.json();
      return stale() ? undefined : found;
    } catch (error) {
      if (stale()) return undefined;
      throw error instanceof TypeError ? new Error(NO_RESPONSE) : error; // fetch throws a TypeError where there is no response
    } finally {
      if (this.asked === mine) this.asked = undefined;
    }
  }

  /** Abort the request. */
  drop(): void {
    this.asked?.abort();
    this.asked = undefined;
  }
}

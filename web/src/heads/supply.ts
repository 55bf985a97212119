// Where the numbers of a head come from: the record inside the page, or the command on this machine, asked for one head at a time.
// The last few are kept. Whoever asks again makes an earlier question stale: its answer is dropped.
import type { Heads, Numbers } from "../contract";
import { given, type Given } from "./weights";

const KEPT = 6;

export type Asking = (address: string, options: { signal: AbortSignal }) => Promise<Response>;

export class Supply {
  private readonly kept = new Map<string, Given>();
  private asked?: AbortController;

  constructor(
    private readonly record: Heads,
    private readonly ask: Asking = (address, options) => fetch(address, options),
    private readonly more = "", // of what else the numbers are asked for
  ) {}

  /** Whether a head has numbers, at hand or to be asked for. */
  has(layer: number): boolean {
    return Boolean(this.record.served || this.record.layers[layer].numbers);
  }

  /** What is at hand: nothing where it has to be asked for, or where there is none. */
  ready(layer: number, head: number): Given | undefined {
    const key = `${layer}.${head}`;
    const { numbers, heads } = this.record.layers[layer];
    const found = this.kept.get(key) ?? (numbers ? given(numbers, head, heads.length) : undefined);
    return found && this.keep(key, found);
  }

  /** Throws a sentence where nobody answers; nothing comes where the answer is stale. */
  async get(layer: number, head: number): Promise<Given | undefined> {
    const found = this.ready(layer, head);
    if (found || !this.record.served) return found;
    this.asked?.abort();
    const mine = (this.asked = new AbortController());
    let numbers: Numbers;
    try {
      const answer = await this.ask(`/head?layer=${layer}&head=${head}${this.more}`, { signal: mine.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim().replace(/\.$/, "") || `it answered ${answer.status}`);
      numbers = await answer.json();
    } catch (error) {
      if (mine.signal.aborted) return undefined;
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(
        `The numbers of this head did not come (${why}): see whether the command still runs, then choose the head again.`,
      );
    }
    return mine.signal.aborted ? undefined : this.keep(`${layer}.${head}`, given(numbers, 0, 1));
  }

  private keep(key: string, found: Given): Given {
    this.kept.delete(key);
    this.kept.set(key, found);
    for (const old of [...this.kept.keys()].slice(0, -KEPT)) this.kept.delete(old);
    return found;
  }
}

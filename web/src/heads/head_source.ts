// Where the numbers of a head come from: the record inside the page, or the command on this machine, asked for one head at a time.
// The last few are kept. Whoever asks for another head waits no longer for the one before.
import type { Heads, Numbers } from "../contract";
import { Newest, type Asking } from "./latest_request";
import { given, type Given } from "./weights";

const KEPT = 6;

export class Supply {
  private readonly kept = new Map<string, Given>();
  private readonly newest: Newest;

  constructor(
    private readonly record: Heads,
    ask?: Asking,
    private readonly more = "", // of what else the numbers are asked for
  ) {
    this.newest = new Newest(ask);
  }

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
    try {
      const numbers = await this.newest.get<Numbers>(`/head?layer=${layer}&head=${head}${this.more}`);
      return numbers && this.keep(`${layer}.${head}`, given(numbers, 0, 1));
    } catch (error) {
      throw new Error(`The numbers of this head did not come. ${(error as Error).message}`);
    }
  }

  private keep(key: string, found: Given): Given {
    this.kept.delete(key);
    this.kept.set(key, found);
    for (const old of [...this.kept.keys()].slice(0, -KEPT)) this.kept.delete(old);
    return found;
  }
}

// The source of a head's tensors: the record inside the page, or the command on this machine, which serves one head per request.
// The last few heads are cached. A new request aborts the one before.
import type { Heads, AttentionTensors } from "../../core/contract";
import { LatestRequest, type Fetcher } from "../../core/latest_request";
import { headTensors, type HeadTensors } from "./weights";

const KEPT = 6;

export class HeadSource {
  private readonly kept = new Map<string, HeadTensors>();
  private readonly newest: LatestRequest;

  constructor(
    private readonly record: Heads,
    ask?: Fetcher,
    private readonly more = "", // further parameters of the request
  ) {
    this.newest = new LatestRequest(ask);
  }

  /** Whether a head has tensors, loaded or to be requested. */
  has(layer: number): boolean {
    return Boolean(this.record.served || this.record.layers[layer].tensors);
  }

  /** The tensors, if they are loaded. */
  ready(layer: number, head: number): HeadTensors | undefined {
    const key = `${layer}.${head}`;
    const { tensors: numbers, heads } = this.record.layers[layer];
    const found = this.kept.get(key) ?? (numbers ? headTensors(numbers, head, heads.length) : undefined);
    return found && this.keep(key, found);
  }

  /** The tensors; undefined where a newer request made this one stale. Throws a sentence where the request fails. */
  async get(layer: number, head: number): Promise<HeadTensors | undefined> {
    const found = this.ready(layer, head);
    if (found || !this.record.served) return found;
    try {
      const numbers = await this.newest.get<AttentionTensors>(`/head?layer=${layer}&head=${head}${this.more}`);
      return numbers && this.keep(`${layer}.${head}`, headTensors(numbers, 0, 1));
    } catch (error) {
      throw new Error(`The tensors of this head could not be loaded. ${(error as Error).message}`);
    }
  }

  private keep(key: string, found: HeadTensors): HeadTensors {
    this.kept.delete(key);
    this.kept.set(key, found);
    for (const old of [...this.kept.keys()].slice(0, -KEPT)) this.kept.delete(old);
    return found;
  }
}

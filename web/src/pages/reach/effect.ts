// How much the outputs change when a token is replaced, as numbers and as words.
import type { Reach, ReachNetwork } from "../../core/contract";
import { error } from "../../core/format";
import { type Tensor, unpack } from "../../core/tensor";
import type { ReachState, Weights } from "./state";

/** Effects of all networks, unpacked once. */
export class Effects {
  private readonly tables: Map<string, Record<Weights, Tensor>>;

  constructor(readonly record: Reach) {
    this.tables = new Map(
      record.networks.map(({ name, influence }) => [
        name,
        { random: unpack(influence.random), trained: unpack(influence.trained) },
      ]),
    );
  }

  /** Relative change of the output at `output` when the symbol at `token` is replaced. */
  at(network: string, weights: Weights, token: number, output: number): number {
    return this.tables.get(network)![weights].data[token * this.record.length + output];
  }

  /** Of the last output of the text. */
  last(network: string, { weights, token, length }: ReachState): number {
    return this.at(network, weights, token, length - 1);
  }
}

export const back = ({ token, length }: ReachState): number => length - 1 - token;

export const inWords = (value: number): string =>
  value === 0
    ? "does not change at all"
    : `changes by ${error(value).replace(" ", "\u00a0")}${value < 9.995 ? " of its size" : ""}`;

export const tokensBack = (count: number): string =>
  count === 0 ? "the last token itself" : `${count} token${count > 1 ? "s" : ""} before the last`;

export const stepsAt = (network: ReachNetwork, record: Reach, length: number): number =>
  network.steps[record.timed_lengths.indexOf(length)];

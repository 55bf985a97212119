// The lab: the explorable's programs, fed with what the person did. It knows leaves by kind, and no scheme by name.
import type { Run } from "../../core/desk";
import type { Explorable, LeafRecord, SchemeProgram } from "../../core/contract";
import { leavesOf, poolOf, Program } from "../../core/program";
import { changed, tensor, type Tensor } from "../../core/tensor";
import { spelled } from "../../core/words";
import type { State } from "./state";

export type Setting = "plain" | "causal" | "padded" | "padded-causal" | "class" | "class-causal";

/** Words in the order they stand, where the first one stands, and which places are empty. source: the words' original rows,
 * where each row is a word that can be edited. */
export interface Input {
  rows: Tensor;
  source?: number[];
  start: number;
  valid?: boolean[];
}

export class Lab {
  readonly pool: Map<string, Tensor>;
  private readonly runs = new Map<string, Run>();
  private readonly cache = new Map<string, { text: string; value: Tensor }>();
  constructor(readonly page: Explorable) {
    this.pool = poolOf(page.pool);
  }

  /** The numbers of a leaf that carries its own. */
  unpack(leaf: LeafRecord): Tensor {
    return leavesOf({ leaves: [leaf], steps: [], outputs: [] }, this.pool).get(leaf.id)!;
  }

  record(scheme: string, setting: Setting): SchemeProgram {
    return this.page.programs.find((p) => p.scheme === scheme && p.setting === setting)!;
  }

  /** The numbers of the words as the person left them, in the order they stand. */
  rows(state: State, order = state.order): Tensor {
    return this.same("rows", [state.words, order, state.edits.words], () => {
      const width = this.page.width;
      const data = new Float64Array(order.length * width);
      order.forEach((row, i) => {
        data.set(this.vector(state.words[row]), i * width);
        for (const [cell, value] of Object.entries(state.edits.words ?? {})) {
          const [r, c] = cell.split(",").map(Number);
          if (r === row && c < width) data[i * width + c] = value;
        }
      });
      return tensor([order.length, width], data);
    });
  }

  vector(word: string): number[] {
    return (
      (Object.hasOwn(this.page.fixed_embeddings, word) ? this.page.fixed_embeddings[word] : undefined) ??
      spelled(word, this.page.width, this.page.seed)
    );
  }

  /** A program with these numbers; `slot` keeps runs of one program on several inputs apart. */
  run(state: State, scheme: string, setting: Setting, input: Input, slot = ""): Run {
    const key = `${scheme}/${setting}/${slot}`;
    const record = this.record(scheme, setting);
    const leaves = this.leaves(record, state, input);
    const known = this.runs.get(key);
    if (known) {
      known.program.change(leaves);
      return Object.assign(known, { leaves, source: input.source });
    }
    const run = { record, program: new Program(record.program, leaves), leaves, source: input.source };
    this.runs.set(key, run);
    return run;
  }

  private leaves(record: SchemeProgram, state: State, input: Input): Map<string, Tensor> {
    return new Map(record.program.leaves.map((leaf) => [leaf.id, this.leaf(leaf, state, input)]));
  }

  private leaf(leaf: LeafRecord, state: State, input: Input): Tensor {
    const given = this.pool.get(leaf.pool!)!;
    const count = input.rows.shape[0];
    switch (leaf.kind) {
      case "content":
        return input.rows;
      case "coordinate":
      case "order": {
        const ahead = given.shape[0] - this.page.recorded_length; // a class token's row comes first, with the position after the last word
        const places = [...Array(ahead).fill(input.start + count), ...Array.from({ length: count }, (_, i) => input.start + i)];
        return this.same(`${leaf.kind}${given.shape.length}`, places, () =>
          tensor(leaf.kind === "order" ? [places.length] : [places.length, 1], places),
        );
      }
      case "valid":
        return this.same("valid", [input.valid, count], () =>
          tensor([count], (input.valid ?? Array(count).fill(true)).map(Number)),
        );
      default:
        return this.same(leaf.pool!, state.edits[leaf.pool!], () => changed(given, state.edits[leaf.pool!]));
    }
  }

  /** The same object as long as what it is made from stays the same, so that programs compute only what changed. */
  private same(key: string, from: unknown, make: () => Tensor): Tensor {
    const text = JSON.stringify(from) ?? "";
    const slot = `${key}|${text}`;
    const known = this.cache.get(slot);
    if (known) return known.value;
    if (this.cache.size > 400) this.cache.clear();
    const value = make();
    this.cache.set(slot, { text, value });
    return value;
  }
}

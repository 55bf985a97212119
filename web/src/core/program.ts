// Program: a trace that runs. Leaves may change; a step runs again only if one of its inputs is another object than before.
import type { Array as ArrayRecord, LeafRecord, StepRecord, ProgramRecord } from "./contract";
import { type Cell, type Explanation, OPERATIONS } from "./ops";
import { map, type Tensor, unpack } from "./tensor";

export interface Values {
  get(id: string): Tensor;
}

/** round: applied to every leaf and every step's output; Math.fround shows what float32 would lose. */
export interface Options {
  round?: (value: number) => number;
}

/** A step that could not be computed; whatever depends on it throws the same object. */
export class StepError extends Error {
  constructor(
    readonly step: string,
    message: string,
  ) {
    super(message);
    this.name = "StepError";
  }
}

interface Memo {
  inputs: Tensor[];
  result: Tensor | StepError;
  version: number;
}

export class Program implements Values {
  private readonly steps: Map<string, StepRecord>;
  private readonly leaves: Map<string, Tensor>;
  protected readonly memos = new Map<string, Memo>();
  protected version = 0;

  constructor(
    readonly programRecord: ProgramRecord,
    leaves: ReadonlyMap<string, Tensor>,
    private readonly options: Options = {},
  ) {
    this.steps = new Map(programRecord.steps.map((step) => [step.id, step]));
    this.leaves = new Map(leaves);
  }

  /** Other numbers for some leaves, by id; nothing is computed before somebody asks. */
  change(leaves: Iterable<[string, Tensor]>): void {
    for (const [id, value] of leaves) {
      if (this.leaves.get(id) === value) continue;
      this.leaves.set(id, value);
      this.version++;
    }
  }

  /** The numbers of a leaf or step: the same object as last time if nothing under it changed. */
  get(id: string): Tensor {
    const memo = this.memos.get(id);
    const result = memo?.version === this.version ? memo.result : this.renew(id, memo).result;
    if (result instanceof StepError) throw result;
    return result;
  }

  /** How a cell of a step came about, with ids for inputs; nothing for a leaf, which was given. */
  operands(id: string, index: number[]): Operands | undefined {
    const step = this.steps.get(id);
    if (!step) return undefined;
    const inputs = step.inputs.map((input) => this.get(input));
    const explanation = OPERATIONS[step.op].explain(inputs, step.params ?? {}, index, this.get(id));
    const resolve = ({ input, index }: Cell): Place => ({ id: step.inputs[input], index });
    const terms = explanation.terms.map((term) => ("input" in term ? resolve(term) : term));
    return { ...explanation, terms, more: (explanation.more ?? []).map(resolve) };
  }

  private renew(id: string, memo: Memo | undefined): Memo {
    const fresh = this.attempt(id, memo);
    this.memos.set(id, fresh);
    return fresh;
  }

  private attempt(id: string, memo: Memo | undefined): Memo {
    const [step, version] = [this.steps.get(id), this.version];
    try {
      const inputs = step ? step.inputs.map((input) => this.get(input)) : [this.leaf(id)];
      if (memo && inputs.length === memo.inputs.length && inputs.every((x, i) => x === memo.inputs[i])) return { ...memo, version };
      try {
        return { inputs, result: this.rounded(step ? this.compute(step, inputs) : inputs[0]), version };
      } catch (error) {
        return { inputs, result: failure(step, id, error), version };
      }
    } catch (error) {
      if (error instanceof StepError) return { inputs: [], result: error, version };
      throw error;
    }
  }

  /** The numbers of a step. */
  protected compute(step: StepRecord, inputs: Tensor[]): Tensor {
    const op = OPERATIONS[step.op];
    if (!op) throw new Error(`There is no operation called '${step.op}'. Known: ${Object.keys(OPERATIONS).join(", ")}.`);
    return op.evaluate(inputs, step.params ?? {});
  }

  private leaf(id: string): Tensor {
    const value = this.leaves.get(id);
    if (!value)
      throw new Error(`There is nothing called '${id}'. Known: ${[...this.leaves.keys(), ...this.steps.keys()].join(", ")}.`);
    return value;
  }

  private rounded(x: Tensor): Tensor {
    return this.options.round ? map(x, this.options.round) : x;
  }
}

function failure(step: StepRecord | undefined, id: string, error: unknown): StepError {
  const message = error instanceof Error ? error.message : String(error);
  return new StepError(id, step?.label ? `${step.symbol || step.op}, ${step.label}: ${message}` : message);
}

/** A cell of a leaf or step, by id. */
export interface Place {
  id: string;
  index: number[];
}

export interface Operands extends Omit<Explanation, "terms" | "more"> {
  terms: ({ text: string } | Place)[];
  more: Place[];
}

/** Every number of the program by id. Throws the first StepError. */
export function evaluate(
  programRecord: ProgramRecord,
  leaves: ReadonlyMap<string, Tensor>,
  options: Options = {},
  Kind = Program,
): Map<string, Tensor> {
  const program = new Kind(programRecord, leaves, options);
  return new Map([...programRecord.leaves, ...programRecord.steps].map(({ id }) => [id, program.get(id)]));
}

/** Arrays that programs share, unpacked once. */
export const poolOf = (arrays: Record<string, ArrayRecord>): Map<string, Tensor> =>
  new Map(Object.entries(arrays).map(([name, array]) => [name, unpack(array)]));

/** The recorded numbers of a trace's leaves. Throws where a leaf has none, or names an entry that the pool does not have. */
export function leavesOf(programRecord: ProgramRecord, pool: ReadonlyMap<string, Tensor> = new Map()): Map<string, Tensor> {
  return new Map(programRecord.leaves.map((leaf) => [leaf.id, numbers(leaf, pool)]));
}

function numbers(leaf: LeafRecord, pool: ReadonlyMap<string, Tensor>): Tensor {
  if (leaf.array) return unpack(leaf.array);
  const shared = leaf.pool ? pool.get(leaf.pool) : undefined;
  if (!shared) throw new Error(`Leaf '${leaf.id}' has no numbers${leaf.pool ? `: the pool has no '${leaf.pool}'` : ""}.`);
  return shared;
}

/** The leaves that a step's numbers come from. */
export function dependsOn(programRecord: ProgramRecord, id: string): Set<string> {
  const inputs = new Map(programRecord.steps.map((step) => [step.id, step.inputs]));
  const seen = new Set([id]);
  for (const known of seen) for (const input of inputs.get(known) ?? []) seen.add(input);
  return new Set(programRecord.leaves.map((leaf) => leaf.id).filter((leaf) => seen.has(leaf)));
}

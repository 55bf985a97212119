// The desk of the graph page: the traced program, run on the words in their order and on the present edges.
import { Desk, type Run } from "../../core/desk";
import type { Messages, ProgramRecord } from "../../core/contract";
import { brief, visible } from "../../core/labels";
import { COLOURS, type Name } from "../../core/names";
import { leavesOf, Program } from "../../core/program";
import { changed, type Tensor, tensor } from "../../core/tensor";
import { count, without } from "./edges";
import { type GraphState, stateOf } from "./state";

const LOW = "₀₁₂₃₄₅₆₇₈₉";

export class GraphDesk extends Desk<GraphState> {
  readonly nodes: number;
  readonly words: Name[];
  private readonly programRecord: ProgramRecord;
  private readonly given: Map<string, Tensor>;
  private readonly traced: Run;
  private ranFor: GraphState | undefined;

  constructor(readonly record: Messages) {
    super(stateOf(record));
    this.nodes = record.words.length;
    this.words = titles(record.words).map((text, i) => ({ text, colour: i % COLOURS }));
    const leaves = record.program.leaves.map((leaf) => (leaf.kind === "weight" ? { ...leaf, pool: leaf.id } : leaf)); // the key of its edits
    this.programRecord = { ...record.program, leaves };
    this.given = leavesOf(this.programRecord);
    this.traced = {
      record: { scheme: "", setting: "", program: this.programRecord, claims: [], roles: record.roles },
      program: new Program(this.programRecord, this.given),
      leaves: this.given,
    };
  }

  /** The words in their present order. */
  names(axis: string): Name[] | undefined {
    return axis === "token" ? this.state.order.map((row) => this.words[row]) : undefined;
  }

  get run(): Run {
    if (this.ranFor !== this.state) {
      this.traced.leaves = this.leaves(this.state.order);
      this.traced.source = this.state.order;
      this.traced.program.change(this.traced.leaves);
      this.ranFor = this.state;
    }
    return this.traced;
  }

  /** The program's leaves for the words in this order; their edges are permuted with them. */
  leaves(order: number[]): Map<string, Tensor> {
    const { roles } = this.record;
    const all = new Map<string, Tensor>();
    for (const { id, pool } of this.programRecord.leaves) {
      const numbers = this.given.get(id)!;
      if (id === roles.words) all.set(id, inOrder(changed(numbers, this.state.edits.words), order));
      else if (id === roles.edges)
        all.set(id, tensor([this.nodes, this.nodes], order.flatMap((to) => order.map((from) => Number(this.there(to, from)))))); // prettier-ignore
      else all.set(id, changed(numbers, this.state.edits[pool!]));
    }
    return all;
  }

  value(role: string): Tensor {
    return this.run.program.get(this.record.roles[role]);
  }

  /** The present position of a word. */
  place(word: number): number {
    return this.state.order.indexOf(word);
  }

  /** Whether a message goes from one word to another: neither is hidden, and the edge is there. */
  there(receives: number, sends: number): boolean {
    const { edges, hidden } = this.state;
    return edges[receives * this.nodes + sends] && !hidden.includes(receives) && !hidden.includes(sends);
  }

  weight(receives: number, sends: number): number {
    return this.value("weights").data[this.place(receives) * this.nodes + this.place(sends)];
  }

  /** How many messages there are. */
  get messages(): number {
    return count(without(this.state.edges, this.state.hidden, this.nodes));
  }

  // --- actions of the user -------------------------------------------------------------------------------------------------
  /** status: a sentence for screen readers. */
  change(change: Partial<GraphState>, status = "", step = true): void {
    this.set(change, { step });
    this.status = status;
  }
  status = "";

  toggle(receives: number, sends: number): void {
    const at = receives * this.nodes + sends;
    const edges = this.state.edges.map((there, i) => (i === at ? !there : there));
    this.change({ edges }, `${edges[at] ? "Added" : "Removed"}: ${this.arrow(sends, receives)}.`);
  }

  hide(word: number): void {
    const { hidden } = this.state;
    const show = hidden.includes(word);
    const next = show ? hidden.filter((one) => one !== word) : [...hidden, word].sort((a, b) => a - b);
    this.change({ hidden: next }, `${this.words[word].text} ${show ? "is shown again" : "is hidden"}.`);
  }

  choose(word: number): void {
    if (word === this.state.node) return;
    this.change({ node: word });
  }

  override undo(): void {
    super.undo();
    this.status = "Undone.";
  }

  override redo(): void {
    super.redo();
    this.status = "Redone.";
  }

  /** The page is never built again, so that the keyboard focus stays. */
  protected override changed(): void {
    this.refresh();
  }

  arrow(sends: number, receives: number): string {
    return `${this.words[sends].text} → ${this.words[receives].text}`;
  }
}

/** Words with invisible characters written out; repeated ones are numbered. */
function titles(words: string[]): string[] {
  const times = new Map<string, number>();
  return words.map((word, i) => {
    const time = (times.get(word) ?? 0) + 1;
    times.set(word, time);
    const again = time > 1 ? String(time).replace(/\d/g, (digit) => LOW[Number(digit)]) : "";
    return brief(visible(word, i), i, 40) + again;
  });
}

function inOrder(x: Tensor, order: number[]): Tensor {
  const wide = x.shape[1];
  return tensor(x.shape, Float64Array.from(order.flatMap((row) => [...x.data.subarray(row * wide, (row + 1) * wide)])));
}

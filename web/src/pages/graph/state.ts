// The state of the graph page, kept in the link and in the undo history.
import type { Messages } from "../../core/contract";
import { edits, type Shown, whole, write } from "../../core/state";
import { type Edges, matching, read, spelled, table } from "./edges";

/** node: the selected word; sends: whether its outgoing messages are shown too. Words are indexed as typed. */
export interface GraphState extends Shown {
  edges: Edges;
  hidden: number[];
  node: number;
  sends: boolean;
}

export function initial(record: Messages): GraphState {
  const start = record.graphs.find(({ name }) => name === record.start) ?? record.graphs[0];
  return {
    edges: table(start.edges, record.words.length),
    hidden: [],
    node: 0,
    sends: false,
    order: record.words.map((_, i) => i),
    head: 0,
    digits: 2,
    edits: {},
  };
}

/** What differs from the initial state, as a URL fragment. Words are counted from 0. */
export function toHash(state: GraphState, record: Messages): string {
  const [begin, parts] = [initial(record), new URLSearchParams()];
  const graph = matching(record.graphs, state.edges, record.words.length);
  if (graph && graph.name !== record.start) parts.set("graph", graph.name);
  if (!graph) parts.set("edges", spelled(state.edges));
  if (state.hidden.length) parts.set("hide", state.hidden.join("."));
  if (state.node !== begin.node) parts.set("word", String(state.node));
  if (state.sends) parts.set("sends", "on");
  if (state.order.some((row, i) => row !== i)) parts.set("order", state.order.join("."));
  if (state.digits !== begin.digits) parts.set("digits", String(state.digits));
  if (Object.keys(state.edits).length) parts.set("edits", write(state.edits));
  return parts.toString();
}

/** The state of a fragment; invalid parts keep their initial value. */
export function fromHash(hash: string, record: Messages): GraphState {
  const [parts, state] = [new URLSearchParams(hash.replace(/^#/, "")), initial(record)];
  const nodes = record.words.length;
  const graph = record.graphs.find(({ name }) => name === parts.get("graph"));
  state.edges = read(parts.get("edges"), nodes) ?? (graph ? table(graph.edges, nodes) : state.edges);
  state.hidden = words(parts.get("hide"), nodes) ?? state.hidden;
  state.node = words(parts.get("word"), nodes)?.[0] ?? state.node;
  state.sends = parts.get("sends") === "on";
  const order = words(parts.get("order"), nodes);
  if (order?.length === nodes) state.order = order;
  state.digits = whole(parts.get("digits"), 0, 8) ?? state.digits;
  state.edits = edits(parts.get("edits"));
  return state;
}

/** "2.0" as [2, 0]; undefined for a repeated or invalid number. */
function words(text: string | null, nodes: number): number[] | undefined {
  const found = (text ?? "").split(".").map((part) => (/^\d{1,3}$/.test(part) ? Number(part) : NaN));
  const valid = found.every((word) => word < nodes) && new Set(found).size === found.length;
  return valid ? found : undefined;
}

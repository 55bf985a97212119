// The state of the graph page.
import type { Messages } from "../../core/contract";
import { digits, distinct, edits, field, type Field, fixed, flag, list, only, order, schema, type Schema, type Shown, whole } from "../../core/state"; // prettier-ignore
import { type Edges, matching, read, spelled, table } from "./edges";

/** node: the selected word; sends: whether its outgoing messages are shown too. Words are indexed as typed, from 0. */
export interface GraphState extends Shown {
  edges: Edges;
  hidden: number[];
  node: number;
  sends: boolean;
}

export function stateOf(record: Messages): Schema<GraphState> {
  const nodes = record.words.length;
  const node = whole(0, nodes - 1);
  return schema<GraphState>({
    edges: edgesOf(record),
    hidden: field(only(list(node), distinct), [], { key: "hide" }), // prettier-ignore
    node: field(node, 0, { key: "word", history: "none" }),
    sends: field(flag(), false),
    order: field(
      order(nodes, "."),
      record.words.map((_, i) => i),
    ),
    head: fixed(0),
    digits: digits(),
    edits: edits(),
  });
}

/** "graph" for an example graph by its name, "edges" for any other. */
function edgesOf({ graphs, start, words }: Messages): Field<Edges, GraphState> {
  const nodes = words.length;
  const begin = graphs.find(({ name }) => name === start) ?? graphs[0];
  return {
    history: "undo",
    initial: () => table(begin.edges, nodes),
    write(edges, link) {
      const graph = matching(graphs, edges, nodes);
      link.set(graph ? "graph" : "edges", graph?.name ?? spelled(edges));
    },
    read(link) {
      const graph = graphs.find(({ name }) => name === link.get("graph"));
      return read(link.get("edges"), nodes) ?? (graph && table(graph.edges, nodes));
    },
  };
}

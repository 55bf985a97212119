// Edges as a table [receiver · N + sender], indexed by the words as they were typed. Pure functions.
import type { ExampleGraph } from "../../core/contract";

export type Edges = boolean[];

/** Pairs (sender, receiver) as a table. */
export function table(pairs: number[][], nodes: number): Edges {
  const edges: Edges = Array(nodes * nodes).fill(false);
  for (const [sends, receives] of pairs) edges[receives * nodes + sends] = true;
  return edges;
}

export const count = (edges: Edges): number => edges.filter(Boolean).length;

/** The edges without those from or to hidden nodes. */
export function without(edges: Edges, hidden: number[], nodes: number): Edges {
  const out = new Set(hidden);
  return edges.map((there, at) => there && !out.has(at % nodes) && !out.has(Math.floor(at / nodes)));
}

export const toggled = (edges: Edges, at: number): Edges => edges.map((there, i) => (i === at ? !there : there));

/** The edges with every self-loop, or with none. */
export const selfLoops = (edges: Edges, nodes: number, on: boolean): Edges =>
  edges.map((there, at) => (at % nodes === Math.floor(at / nodes) ? on : there));

/** Whether each node has a self-loop. */
export const hasSelfLoops = (edges: Edges, nodes: number): boolean => edges.every((there, at) => there || at % (nodes + 1) !== 0);

/** A given number of random edges. */
export function randomEdges(nodes: number, wanted: number, chance: () => number = Math.random): Edges {
  const places = Array.from({ length: nodes * nodes }, (_, i) => i);
  for (let i = 0; i < wanted; i++) {
    const j = i + Math.floor(chance() * (places.length - i));
    [places[i], places[j]] = [places[j], places[i]];
  }
  const chosen = new Set(places.slice(0, wanted));
  return places.map((_, at) => chosen.has(at));
}

/** The example graph with exactly these edges. */
export const matching = (graphs: ExampleGraph[], edges: Edges, nodes: number): ExampleGraph | undefined =>
  graphs.find((graph) => table(graph.edges, nodes).every((there, at) => there === edges[at]));

// --- in a link: four edges a letter -------------------------------------------------------------------------------------
export function spelled(edges: Edges): string {
  let text = "";
  for (let at = 0; at < edges.length; at += 4) {
    text += [0, 1, 2, 3].reduce((sum, bit) => sum + (edges[at + bit] ? 1 << bit : 0), 0).toString(16);
  }
  return text;
}

/** Undefined if the text is not a table of this size. */
export function read(text: string | null, nodes: number): Edges | undefined {
  const length = nodes * nodes;
  if (!text || !/^[0-9a-f]+$/.test(text) || text.length !== Math.ceil(length / 4)) return undefined;
  return Array.from({ length }, (_, at) => ((parseInt(text[Math.floor(at / 4)], 16) >> (at % 4)) & 1) === 1);
}

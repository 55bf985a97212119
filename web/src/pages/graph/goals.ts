// What the exercises of the book ask of this page: properties of the edges on the screen.
import type { Marked } from "../../core/goals";
import type { GraphDesk } from "./desk";
import { count } from "./edges";

type Chosen = Pick<GraphDesk, "nodes" | "words" | "there" | "state">;

const pairs = (nodes: number): [number, number][] =>
  Array.from({ length: nodes * nodes }, (_, at) => [Math.floor(at / nodes), at % nodes]);
const arrow = ({ words }: Chosen, to: number, from: number): string => `${words[from].text} → ${words[to].text}`;

/** Whether the edges are exactly those that are wanted, and else one that is not. */
function exactly(desk: Chosen, wanted: (to: number, from: number) => boolean, done: string): Marked {
  const wrong = pairs(desk.nodes).find(([to, from]) => desk.there(to, from) !== wanted(to, from));
  if (!wrong) return { right: true, says: done };
  const [to, from] = wrong;
  return { right: false, says: `${arrow(desk, to, from)} is ${wanted(to, from) ? "missing" : "still there"}.` };
}

/** The words that a message of one of them reaches in some layers; a message may stay where it is, as with a residual. */
function reached(desk: Chosen, from: number, layers: number): Set<number> {
  let now = new Set([from]);
  for (let layer = 0; layer < layers; layer++)
    now = new Set([...now, ...pairs(desk.nodes).flatMap(([to, sends]) => (now.has(sends) && desk.there(to, sends) ? [to] : []))]);
  return now;
}

export const goals: Record<string, (desk: Chosen) => Marked> = {
  "causal-edges": (desk) => exactly(desk, (to, from) => from <= to, `These ${count(desk.state.edges)} arrows are the causal mask.`),

  "only-itself": (desk) => exactly(desk, (to, from) => to === from, "Every word receives from itself only."),

  /** The first word reaches the last one, and not the other way round. */
  "one-way"(desk) {
    const last = desk.nodes - 1;
    const [first, end] = [desk.words[0].text, desk.words[last].text];
    if (!reached(desk, 0, last).has(last)) return { right: false, says: `Nothing of ${first} reaches ${end} any more.` };
    if (reached(desk, last, last).has(0))
      return { right: false, says: `${end} still reaches ${first}, in ${last} layers or fewer.` };
    return { right: true, says: `${first} reaches ${end}, and ${end} reaches ${first} in no number of layers.` };
  },
};

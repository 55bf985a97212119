// bucket: T5's bucket of each gap i − j between a query's and a key's position. Near gaps have a bucket each, farther ones share
// buckets that widen with the logarithm, from `max_distance` on there is one. If `bidirectional`, keys after the query (negative
// gaps) have the upper half of the buckets; otherwise they share bucket 0.
import { at, map } from "../tensor";
import { nearest } from "./nearest";
import { cell, type Op, type Params, pieces, symbol, type Term, terms } from "./op";

export const bucket: Op = {
  evaluate: ([gap], params) => map(gap, (value) => placed(value, params).bucket),
  explain([gap], params, index) {
    const { bucket: value, kind, upper, half, exact, far } = placed(at(gap, index), params);
    const steps = written(at(gap, index), index, params);
    const log = terms`${exact} + ⌊${half - exact}·ln(${steps} / ${exact}) / ln(${far} / ${exact})⌋`;
    const line = { near: steps, farther: log, farthest: terms`${half - 1}`, behind: terms`0` }[kind];
    return { terms: upper ? terms`${half} + ${line}` : line, value, note: NOTES[kind], more: [cell(0, index)] };
  },
  formula: () => pieces`bucket(${symbol(0)})`,
};

/** What logarithms may lose: 2·ln 3 / ln 9 is 1 in truth and in torch, but 0.9999999999999998 in V8. */
const ROUNDING = 1e-9;

type Kind = "near" | "farther" | "farthest" | "behind";

const NOTES: Record<Kind, string> = {
  near: "near: a bucket of its own",
  farther: "farther: buckets widen with the logarithm",
  farthest: "far: all share the last bucket",
  behind: "a key after the query: all share bucket 0",
};

function placed(gap: number, { buckets, max_distance, bidirectional }: Params) {
  const half = bidirectional ? Math.floor(Number(buckets) / 2) : Number(buckets);
  const [exact, turned, end] = [Math.floor(half / 2), nearest(gap), Number(max_distance)];
  const upper = Boolean(bidirectional) && turned < 0;
  const steps = bidirectional ? Math.abs(turned) : Math.max(turned, 0);
  const log = exact + Math.floor((Math.log(Math.max(steps, 1) / exact) / Math.log(end / exact)) * (half - exact) + ROUNDING);
  const kind: Kind = !bidirectional && turned < 0 ? "behind" : steps < exact ? "near" : log < half ? "farther" : "farthest";
  const bucket = (upper ? half : 0) + (steps < exact ? steps : Math.min(log, half - 1));
  return { bucket, kind, upper, half, exact, far: end };
}

/** Steps between query and key: a fractional gap is rounded. */
function written(gap: number, index: number[], { bidirectional }: Params): Term[] {
  const whole = Number.isInteger(gap) ? [cell(0, index)] : terms`round(${cell(0, index)})`;
  return bidirectional ? terms`|${whole}|` : whole;
}

// concat: a then b: more columns (axis -1) or more rows (axis -2); leading axes broadcast.
import { aligned, at, broadcast, size, spread, type Tensor, zeros } from "../tensor";
import { cell, type Op, type Params, pieces, symbol } from "./op";

export const concat: Op = {
  evaluate([a, b], params) {
    const lead = broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2));
    const axis = joinedAxis(a, b, lead, params);
    const inner = (x: Tensor) => x.shape.slice(-2);
    const shape = [...lead, ...inner(a)];
    shape[axis] += inner(b)[axis - lead.length];
    const out = zeros(shape);
    // below `lead`, a run of numbers of a is followed by a run of b: whole matrices for rows, single rows for columns
    const runs = size(shape.slice(lead.length, axis));
    const [runA, runB] = [a, b].map((x) => size(inner(x)) / runs);
    const [fromA, fromB] = [spread(a.shape.slice(0, -2), lead, runA * runs), spread(b.shape.slice(0, -2), lead, runB * runs)];
    for (let m = 0, to = 0; m < fromA.length; m++) {
      for (let run = 0; run < runs; run++, to += runA + runB) {
        out.data.set(a.data.subarray(fromA[m] + run * runA, fromA[m] + (run + 1) * runA), to);
        out.data.set(b.data.subarray(fromB[m] + run * runB, fromB[m] + (run + 1) * runB), to + runA);
      }
    }
    return out;
  },
  explain([a, b], params, index) {
    const lead = index.slice(0, -2);
    const axis = joinedAxis(a, b, lead, params);
    const length = a.shape[axis - index.length + a.shape.length];
    const second = index[axis] >= length;
    const x = second ? b : a;
    const inner = index.slice(lead.length);
    if (second) inner[axis - lead.length] -= length;
    const from = [...aligned(lead, x.shape.slice(0, -2)), ...inner];
    return { terms: [cell(second ? 1 : 0, from)], value: at(x, from), note: `from the ${second ? "second" : "first"} part` };
  },
  formula: (_, { axis }) => (axis === -2 ? pieces`[${symbol(0)}; ${symbol(1)}]` : pieces`[${symbol(0)}, ${symbol(1)}]`),
};

/** The axis of the result along which a and b stand behind one another, counted from the first. */
function joinedAxis(a: Tensor, b: Tensor, lead: number[], { axis = -1 }: Params): number {
  const rank = lead.length + Math.min(2, a.shape.length);
  const place = Number(axis) < 0 ? rank + Number(axis) : Number(axis);
  const other = (x: Tensor) => x.shape.slice(-2).filter((_, i) => i !== place - lead.length);
  if (place < lead.length || place >= rank || String(other(a)) !== String(other(b))) {
    throw new Error(`Shapes [${a.shape}] and [${b.shape}] cannot stand behind one another along axis ${axis}.`);
  }
  return place;
}

// Candidates with their runs, and the mean and spread over seeds. The verdict on a difference is in the record; nothing is
// tested here.
import type { Extrapolation, Candidate, Comparison, Trial } from "../../core/contract";

/** Statistics over seeds. sd: the standard deviation, undefined with one seed. */
export interface Spread {
  count: number;
  mean: number;
  median: number; // for costs: robust against one run on a busy machine
  low: number;
  high: number;
  sd?: number;
}

export interface Group {
  index: number; // the candidate's rank, best first: it selects colour, dashes and marker
  candidate: Candidate;
  label: string; // its name where there is little room
  trials: Trial[];
  value?: Spread;
}

export function groups({ candidates, trials }: Comparison): Group[] {
  const labels = brief(candidates.map(({ name }) => name));
  return candidates.map((candidate, index) => {
    const own = trials.filter((trial) => trial.candidate === candidate.name);
    return { index, candidate, label: labels[index], trials: own, value: spread(own.map(({ value }) => value)) };
  });
}

/** Names without their common parts: "position=rope, heads=4" is "rope" where all have 4 heads. Unchanged where that is ambiguous. */
export function brief(names: string[]): string[] {
  const parts = names.map((name) => name.split(", "));
  const columns = parts[0]?.length ?? 0;
  if (names.length < 2 || parts.some(({ length }) => length !== columns)) return names;
  const short: string[][] = names.map(() => []);
  for (let i = 0; i < columns; i++) {
    const column = parts.map((part) => part[i]);
    if (column.every((text) => text === column[0])) continue;
    const key = column[0].slice(0, column[0].indexOf("=") + 1);
    column.forEach((text, j) =>
      short[j].push(column.every((one) => one.startsWith(key) && one !== key) ? text.slice(key.length) : text),
    );
  }
  const shortNames = short.map((part) => part.join(", "));
  return new Set(shortNames).size === names.length && shortNames.every(Boolean) ? shortNames : names;
}

/** Statistics of the finite numbers; undefined where there are none. */
export function spread(given: (number | null | undefined)[]): Spread | undefined {
  const values = given.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  if (!values.length) return undefined;
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const sorted = [...values].sort((a, b) => a - b);
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    count,
    mean,
    median: (sorted[(count - 1) >> 1] + sorted[count >> 1]) / 2,
    low: Math.min(...values),
    high: Math.max(...values),
    sd: count > 1 ? Math.sqrt(square / (count - 1)) : undefined,
  };
}

/** A position on an axis, and the statistics of the seeds there. */
export interface At {
  x: number;
  value: Spread;
}

/** After each evaluation, over the seeds that were evaluated then. */
export function curve({ trials }: Group): At[] {
  return at(trials.flatMap((trial) => steps(trial)));
}

/** The contract writes the pairs (step, number) as lists. */
export const steps = ({ curve }: Trial): [number, number | null][] => (curve ?? []) as unknown as [number, number | null][];

/** At other sizes than those of training, over the seeds. */
export const extrapolated = ({ trials }: Group): At[] =>
  at(
    trials.flatMap((trial) =>
      (trial.extrapolation ?? []).map(({ factor, value }): [number, number | null] => [factor, value ?? null]),
    ),
  );

/** Sizes that no seed of a candidate supports, with the first reason. */
export function unsupported(group: Group): Extrapolation[] {
  const known = new Set(extrapolated(group).map(({ x }) => x));
  const found = group.trials.flatMap(({ extrapolation }) => extrapolation ?? []).filter(({ factor }) => !known.has(factor));
  return found.filter((one, i) => found.findIndex(({ factor }) => factor === one.factor) === i);
}

/** All evaluated sizes, smallest first. */
export function sizes({ trials }: Pick<Comparison, "trials">): Pick<Extrapolation, "factor" | "size">[] {
  const found = new Map(trials.flatMap(({ extrapolation }) => extrapolation ?? []).map(({ factor, size }) => [factor, size]));
  return [...found].map(([factor, size]) => ({ factor, size })).sort((a, b) => a.factor - b.factor);
}

function at(pairs: [number, number | null][]): At[] {
  const found = new Map<number, (number | null)[]>();
  for (const [x, y] of pairs) found.set(x, [...(found.get(x) ?? []), y]);
  return [...found]
    .map(([x, values]) => ({ x, value: spread(values) }))
    .filter((one): one is At => one.value !== undefined)
    .sort((a, b) => a.x - b.x);
}

/** Runs that did not finish, or have no result. */
export const unfinished = ({ trials }: Group): Trial[] =>
  trials.filter(({ state, value }) => state !== "finished" || value == null);

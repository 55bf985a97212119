// Candidates with their runs, and what is drawn of several seeds: the mean and how far they spread. Whether a difference is
// decided stands in the record; nothing here decides.
import type { Beyond, Candidate, Comparison, Trial } from "../contract";

/** Numbers of several seeds. sd: their standard deviation, unknown with one. */
export interface Spread {
  count: number;
  mean: number;
  low: number;
  high: number;
  sd?: number;
}

export interface Group {
  index: number; // the candidate's place, best first: it decides colour, dashes and sign
  candidate: Candidate;
  trials: Trial[];
  value?: Spread;
}

export function groups({ candidates, trials }: Comparison): Group[] {
  return candidates.map((candidate, index) => {
    const own = trials.filter((trial) => trial.candidate === candidate.name);
    return { index, candidate, trials: own, value: spread(own.map(({ value }) => value)) };
  });
}

/** What is no number is left out; nothing where there is none. */
export function spread(given: (number | null | undefined)[]): Spread | undefined {
  const values = given.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  if (!values.length) return undefined;
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    count,
    mean,
    low: Math.min(...values),
    high: Math.max(...values),
    sd: count > 1 ? Math.sqrt(square / (count - 1)) : undefined,
  };
}

/** A place on an axis, and the numbers of the seeds there. */
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
export const beyond = ({ trials }: Group): At[] =>
  at(trials.flatMap((trial) => (trial.beyond ?? []).map(({ factor, value }): [number, number | null] => [factor, value ?? null])));

/** Sizes that no seed of a candidate could read, with what the first of them said. */
export function refused(group: Group): Beyond[] {
  const known = new Set(beyond(group).map(({ x }) => x));
  const found = group.trials.flatMap(({ beyond }) => beyond ?? []).filter(({ factor }) => !known.has(factor));
  return found.filter((one, i) => found.findIndex(({ factor }) => factor === one.factor) === i);
}

/** Every size that was tried, smallest first. */
export function sizes({ trials }: Pick<Comparison, "trials">): Pick<Beyond, "factor" | "size">[] {
  const found = new Map(trials.flatMap(({ beyond }) => beyond ?? []).map(({ factor, size }) => [factor, size]));
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

/** Runs that came to no number, or not to their end, and why. */
export const troubles = ({ trials }: Group): Trial[] => trials.filter(({ state, value }) => state !== "finished" || value == null);

// What is known of a run: its entries, sorted as they come, and the lines that are drawn of them.
import type { News, Point, Run, Sample, Score } from "../contract";

export type Measure = "loss" | "rate" | "norm" | "seconds" | "tokens" | "busy";

/** A line: y at the places x, which grow. What was not measured is NaN. */
export interface Line {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
}

export class History {
  points: Point[] = [];
  scores: Score[] = [];
  samples: Sample[] = [];
  private lines = new Map<Measure | "step", Float64Array>();

  constructor(run: Run) {
    this.add([...(run.points ?? []), ...(run.scores ?? []), ...(run.samples ?? [])]);
  }

  /** How many entries there are. */
  get count(): number {
    return this.points.length + this.scores.length + this.samples.length;
  }

  add(entries: NonNullable<News["entries"]>): void {
    for (const entry of entries) {
      if (entry.entry === "point") this.points.push(entry);
      else if (entry.entry === "score") this.scores.push(entry);
      else this.samples.push(entry);
    }
    if (entries.length) this.lines.clear();
  }

  /** A number of every step, in the order of the steps. */
  of(measure: Measure | "step"): Float64Array {
    let found = this.lines.get(measure);
    if (!found) {
      found = Float64Array.from(this.points, (point) => point[measure] ?? NaN);
      this.lines.set(measure, found);
    }
    return found;
  }

  /** Seconds of training up to a step. */
  time(step: number): number {
    const at = below(this.of("step"), step);
    return at < 0 ? 0 : this.of("seconds")[at];
  }

  /** Names of what was measured on a part of the data, and the scores with them. */
  measured(): Map<string, Score[]> {
    const found = new Map<string, Score[]>();
    for (const score of this.scores)
      for (const name of Object.keys(score.values)) found.set(name, [...(found.get(name) ?? []), score]);
    return found;
  }

  /** Steps after which examples were answered. */
  answered(): number[] {
    return [...new Set(this.samples.map(({ step }) => step))].sort((a, b) => a - b);
  }

  /** Each example as it was answered last, up to a step. */
  answers(step: number): Sample[] {
    const found = new Map<string, Sample>();
    for (const sample of this.samples) {
      const key = sample.given;
      if (sample.step <= step || !found.has(key)) found.set(key, sample);
    }
    return [...found.values()];
  }

  /** The examples whose attention was looked at, as it was last, up to a step. */
  looked(step: number): Sample[] {
    const found = new Map<string, Sample>();
    for (const sample of this.samples)
      if (sample.attention && (sample.step <= step || !found.has(sample.given))) found.set(sample.given, sample);
    return [...found.values()];
  }

  /** The picture of an example, wherever it was written down. */
  picture(given: string): Sample["picture"] {
    return this.samples.find((sample) => sample.given === given && sample.picture)?.picture;
  }
}

/** The last place whose number is at most `limit`, or -1; the numbers grow. */
export function below(numbers: ArrayLike<number>, limit: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The place whose number is nearest. */
export function nearest(numbers: ArrayLike<number>, wanted: number): number {
  const before = below(numbers, wanted);
  if (before < 0) return 0;
  const after = Math.min(before + 1, numbers.length - 1);
  return numbers[after] - wanted < wanted - numbers[before] ? after : before;
}

/** The mean of the last `span` numbers at each place; of fewer at the beginning. */
export function smoothed(y: ArrayLike<number>, span: number): Float64Array {
  const out = new Float64Array(y.length);
  let [sum, count] = [0, 0];
  for (let i = 0; i < y.length; i++) {
    if (Number.isFinite(y[i])) [sum, count] = [sum + y[i], count + 1];
    const gone = y[i - span];
    if (i >= span && Number.isFinite(gone)) [sum, count] = [sum - gone, count - 1];
    out[i] = count ? sum / count : NaN;
  }
  return out;
}

/** Steps of the mean for a run of this length: a fiftieth of it, as 1, 2 or 5 times a power of ten. */
export function span(points: number): number {
  const wanted = points / 50;
  if (wanted <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [5, 2, 1].map((digit) => digit * power).find((size) => size <= wanted) ?? 1;
}

// The entries of a run, sorted by kind as they arrive, and the lines to draw.
import type { RunUpdate, Point, Run, Sample, Score } from "../../core/contract";

export type Measure = "loss" | "rate" | "norm" | "seconds" | "tokens" | "mfu";

export class History {
  points: Point[] = [];
  scores: Score[] = [];
  samples: Sample[] = [];
  private lines = new Map<Measure | "step", Float64Array>();

  constructor(run: Run) {
    this.add([...(run.points ?? []), ...(run.scores ?? []), ...(run.samples ?? [])]);
  }

  /** The number of entries. */
  get count(): number {
    return this.points.length + this.scores.length + this.samples.length;
  }

  add(entries: NonNullable<RunUpdate["entries"]>): void {
    for (const entry of entries) {
      if (entry.entry === "point") this.points.push(entry);
      else if (entry.entry === "score") this.scores.push(entry);
      else this.samples.push(entry);
    }
    if (entries.length) this.lines.clear();
  }

  /** One measure for every step, in order. */
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

  /** Metric names with the scores that have them. */
  measured(): Map<string, Score[]> {
    const found = new Map<string, Score[]>();
    for (const score of this.scores)
      for (const name of Object.keys(score.values)) found.set(name, [...(found.get(name) ?? []), score]);
    return found;
  }

  /** Steps after which samples were taken. */
  sampledSteps(): number[] {
    return [...new Set(this.samples.map(({ step }) => step))].sort((a, b) => a - b);
  }

  /** The last sample of each example up to a step. */
  samplesAt(step: number): Sample[] {
    const found = new Map<string, Sample>();
    for (const sample of this.samples) {
      const key = sample.prompt;
      if (sample.step <= step || !found.has(key)) found.set(key, sample);
    }
    return [...found.values()];
  }

  /** The last sample with attention of each example up to a step. */
  attentionAt(step: number): Sample[] {
    const found = new Map<string, Sample>();
    for (const sample of this.samples)
      if (sample.attention && (sample.step <= step || !found.has(sample.prompt))) found.set(sample.prompt, sample);
    return [...found.values()];
  }

  /** The picture of an example. */
  picture(given: string): Sample["picture"] {
    return this.samples.find((sample) => sample.prompt === given && sample.picture)?.picture;
  }
}

/** The last index whose number is at most `limit`, or -1; the numbers increase. */
export function below(numbers: ArrayLike<number>, limit: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The running mean over the last `span` numbers; over fewer at the beginning. */
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

/** The smoothing window for a run of this length: a fiftieth of it, as 1, 2 or 5 times a power of ten. */
export function span(points: number): number {
  const wanted = points / 50;
  if (wanted <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [5, 2, 1].map((digit) => digit * power).find((size) => size <= wanted) ?? 1;
}

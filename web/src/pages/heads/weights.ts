// The attention weights of a head in float64: softmax over the unmasked keys of (softcap(scale · q·k) + bias) / temperature. One row
// costs O(keys), and so does a column once the normalizer of each row is known.
import type { Array as ArrayRecord, AttentionTensors } from "../../core/contract";
import { part } from "../../core/tensor";
import { decodeWeights, dequantized } from "./rounded";
import type { Edit } from "./state";

/** Numbers of [rows, columns], or of one row that stands for all. */
interface Table {
  rows: number;
  data: Float64Array;
}

/** The tensors of one head, read from a record. */
export interface HeadTensors {
  rows: number; // N, queries
  columns: number; // M, keys
  width: number; // K, of queries and keys
  values: number; // V, of values
  scale: number;
  causal: boolean;
  cap: number;
  q?: Float64Array; // [N, K]
  k?: Float64Array; // [M, K]
  v?: Float64Array; // [M, V]
  bias?: Table;
  seen?: Table;
  sink?: number;
  weights?: Float64Array; // [N, M], where they cannot be recomputed from the rest
  about: number; // relative error of the weights
}

/** The interventions on it. */
export interface Interventions {
  causal?: boolean;
  mask: boolean;
  bias: boolean;
  temperature: number;
  hidden: number[];
  edits: Pick<Edit, "of" | "token" | "feature" | "value">[];
}

export const NONE: Interventions = { mask: true, bias: true, temperature: 1, hidden: [], edits: [] };

/** One head of [H, ...]; of [G, ...] the one that it shares: number h·G // H. */
export function headTensors(numbers: AttentionTensors, head: number, heads: number): HeadTensors {
  const own = (array: ArrayRecord | null | undefined): Float64Array | undefined => {
    if (!array) return undefined;
    const size = array.shape.slice(1).reduce((product, length) => product * length, 1);
    const group = Math.floor((head * array.shape[0]) / heads);
    return part(array, group * size, (group + 1) * size);
  };
  const table = (array: ArrayRecord | null | undefined) => array && { rows: array.shape[1], data: own(array)! };
  const vectors = (array?: ArrayRecord | null, step?: ArrayRecord | null) => {
    const found = own(array);
    return found && step ? dequantized(found, step, Math.floor((head * step.shape[0]) / heads)) : found;
  };
  const { q, k, v, weights } = numbers;
  return {
    rows: numbers.rows || (q?.shape[1] ?? weights?.shape[1] ?? 0),
    columns: numbers.columns || (k?.shape[1] ?? weights?.shape[2] ?? 0),
    width: q?.shape[2] ?? 0,
    values: v?.shape[2] ?? 0,
    scale: numbers.scale,
    causal: numbers.causal ?? false,
    cap: numbers.cap ?? 0,
    q: vectors(q, numbers.q_scale),
    k: vectors(k, numbers.k_scale),
    v: own(v),
    bias: table(numbers.bias) ?? undefined,
    seen: table(numbers.mask) ?? undefined,
    sink: own(numbers.sink)?.[0],
    weights: numbers.encoded_weights?.length ? decodeWeights(numbers, head) : own(weights),
    about: numbers.relative_error ?? 0,
  };
}

/** One weight, step by step. */
export interface Score {
  hidden: string; // why the key is masked; empty where it is not
  products?: Float64Array; // q[n, k] · k[m, k]
  sum: number; // of the products
  scaled: number;
  capped: number;
  bias: number;
  score: number; // the logit, before the temperature
  exponent: number; // score / temperature
  top: number; // the largest exponent of the row
  total: number; // sum of e^(exponent − top) over the row, with the sink
  sink?: number; // the sink's part in this sum
  weight: number;
}

export class Attention {
  readonly q?: Float64Array;
  readonly k?: Float64Array;
  readonly causal: boolean;
  private readonly out: Uint8Array; // tokens that the reader masked
  private readonly bias?: Table;
  private readonly seen?: Table;
  private readonly sums: Float64Array; // log of each row's sum; NaN where it is not computed yet
  private readonly buffer: Float64Array;

  constructor(
    readonly given: HeadTensors,
    readonly changes: Interventions = NONE,
  ) {
    const { rows, columns, width } = given;
    const edited = (of: "q" | "k", data?: Float64Array) => {
      const edits = changes.edits.filter(
        (edit) => edit.of === of && edit.feature < width && edit.token < (of === "q" ? rows : columns),
      );
      if (!data || !edits.length) return data;
      const copy = data.slice();
      for (const { token, feature, value } of edits) copy[token * width + feature] = value;
      return copy;
    };
    this.q = edited("q", given.q);
    this.k = edited("k", given.k);
    this.causal = changes.causal ?? given.causal;
    this.bias = changes.bias ? given.bias : undefined;
    this.seen = changes.mask ? given.seen : undefined;
    this.out = new Uint8Array(columns);
    for (const token of changes.hidden) if (token < columns) this.out[token] = 1;
    this.sums = new Float64Array(rows).fill(NaN);
    this.buffer = new Float64Array(columns);
  }

  /** Whether anything differs from the model. */
  get changed(): boolean {
    const { given, changes } = this;
    return (
      this.causal !== given.causal ||
      (!changes.mask && Boolean(given.seen)) ||
      (!changes.bias && Boolean(given.bias)) ||
      changes.temperature !== 1 ||
      this.out.includes(1) ||
      this.q !== given.q ||
      this.k !== given.k
    );
  }

  /** Why query n cannot attend to key m; empty where it can. */
  hidden(n: number, m: number): string {
    if (this.out[m]) return "masked by you";
    if (this.causal && m > n + this.given.columns - this.given.rows) return "causal mask";
    if (this.seen && !this.seen.data[place(this.seen, n, m, this.given.columns)]) return "the model's mask";
    if (this.bias && this.bias.data[place(this.bias, n, m, this.given.columns)] === -Infinity) return "its score bias is −∞";
    return "";
  }

  /** Weights of query n, written into `weights`. */
  row(n: number, weights: Float64Array = new Float64Array(this.given.columns)): Float64Array {
    const { columns, rows, sink } = this.given;
    if (this.given.weights && !this.changed) return fill(weights, this.given.weights.subarray(n * columns, (n + 1) * columns));
    const ends = this.causal ? Math.min(columns, Math.max(0, n + columns - rows + 1)) : columns;
    const cool = 1 / this.changes.temperature;
    let top = -Infinity;
    for (let m = 0; m < columns; m++) {
      const exponent = m < ends ? this.exponent(n, m, cool) : -Infinity;
      weights[m] = exponent;
      if (exponent > top) top = exponent;
    }
    const leads = this.given.weights ? undefined : sink;
    if (leads !== undefined && leads * cool > top) top = leads * cool;
    if (top === -Infinity) {
      this.sums[n] = Infinity;
      return weights.fill(0);
    }
    let total = leads === undefined ? 0 : Math.exp(leads * cool - top);
    for (let m = 0; m < columns; m++) total += weights[m] = Math.exp(weights[m] - top);
    if (this.given.weights) total /= this.mass(n);
    this.sums[n] = top + Math.log(total);
    for (let m = 0; m < columns; m++) weights[m] /= total;
    return weights;
  }

  /** Weights of all queries on key m. The first call computes every row; later ones cost as much as a row. */
  column(m: number): Float64Array {
    const { rows, columns, weights } = this.given;
    const found = new Float64Array(rows);
    const cool = 1 / this.changes.temperature;
    for (let n = 0; n < rows; n++) {
      if (weights && !this.changed) found[n] = weights[n * columns + m];
      else {
        if (Number.isNaN(this.sums[n])) this.row(n, this.buffer);
        found[n] = this.hidden(n, m) ? 0 : Math.exp(this.exponent(n, m, cool) - this.sums[n]);
      }
    }
    return found;
  }

  /** Whether a column is cheap: the sums of all rows are computed. */
  get summed(): boolean {
    return (this.given.weights && !this.changed) || !this.sums.some(Number.isNaN);
  }

  /** The output of query n: the weighted sum of the values. */
  output(n: number): Float64Array | undefined {
    const { v, values, columns } = this.given;
    if (!v) return undefined;
    const [weights, sum] = [this.row(n), new Float64Array(values)];
    for (let m = 0; m < columns; m++) for (let j = 0; j < values; j++) sum[j] += weights[m] * v[m * values + j];
    return sum;
  }

  score(n: number, m: number): Score {
    const { width, columns, scale, cap, weights: kept, sink } = this.given;
    const [hidden, weights, { temperature }] = [this.hidden(n, m), this.row(n), this.changes];
    const { q, k } = this;
    const products = q && k && Float64Array.from({ length: width }, (_, j) => q[n * width + j] * k[m * width + j]);
    const sum = products?.reduce((total, one) => total + one, 0) ?? NaN;
    const scaled = sum * scale;
    const capped = cap ? cap * Math.tanh(scaled / cap) : scaled;
    const bias = this.bias ? this.bias.data[place(this.bias, n, m, columns)] : 0;
    let top = -Infinity;
    for (let at = 0; at < columns; at++) if (!this.hidden(n, at)) top = Math.max(top, this.exponent(n, at, 1 / temperature));
    const leads = kept ? undefined : sink;
    if (leads !== undefined) top = Math.max(top, leads / temperature);
    let total = leads === undefined ? 0 : Math.exp(leads / temperature - top);
    const first = total;
    for (let at = 0; at < columns; at++) if (!this.hidden(n, at)) total += Math.exp(this.exponent(n, at, 1 / temperature) - top);
    return {
      hidden,
      products,
      sum,
      scaled,
      capped,
      bias,
      score: capped + bias,
      exponent: (capped + bias) / temperature,
      top,
      total,
      sink: leads === undefined ? undefined : first,
      weight: weights[m],
    };
  }

  /** The argument of the softmax: the score over the temperature, or the logarithm of the weight where only weights are known. */
  private exponent(n: number, m: number, cool: number): number {
    const { columns, width, scale, cap, weights } = this.given;
    if (this.out[m] || (this.seen && !this.seen.data[place(this.seen, n, m, columns)])) return -Infinity;
    if (weights) return Math.log(weights[n * columns + m]) * cool;
    const { q, k, bias } = this;
    if (!q || !k) return -Infinity;
    let sum = 0;
    for (let i = n * width, j = m * width, end = i + width; i < end; i++, j++) sum += q[i] * k[j];
    sum *= scale;
    if (cap) sum = cap * Math.tanh(sum / cap);
    if (bias) sum += bias.data[place(bias, n, m, columns)];
    return sum * cool;
  }

  /** The sum of a recorded row: 1, or less where a sink takes some. */
  private mass(n: number): number {
    const { columns, weights } = this.given;
    let sum = 0;
    for (let m = 0; m < columns; m++) sum += weights![n * columns + m];
    return sum;
  }
}

const place = (table: Table, n: number, m: number, columns: number): number => (table.rows === 1 ? m : n * columns + m);

function fill(out: Float64Array, from: Float64Array): Float64Array {
  out.set(from);
  return out;
}

/** The index of the largest number; of several, the first. */
export function largest(numbers: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < numbers.length; i++) if (numbers[i] > numbers[best]) best = i;
  return best;
}

/** The indices of the largest numbers, the largest first. */
export function most(numbers: ArrayLike<number>, count: number): number[] {
  const found: number[] = [];
  for (let i = 0; i < numbers.length; i++) {
    if (found.length === count && !(numbers[i] > numbers[found[count - 1]])) continue;
    let at = found.length;
    while (at > 0 && numbers[i] > numbers[found[at - 1]]) at--;
    found.splice(at, 0, i);
    if (found.length > count) found.pop();
  }
  return found;
}

/** Total variation distance of two rows of weights: half the sum of |now − before|. */
export function movedWeight(now: Float64Array, before: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < now.length; i++) sum += Math.abs(now[i] - before[i]);
  return sum / 2;
}

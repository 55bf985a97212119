// Measure: how far f(g x) is from g f(x), and whether that is rounding or a truth about f. No tolerance is chosen: a rounding
// error shrinks by 2^-29 from float32 to float64, its square root by half as many digits, a broken symmetry not at all.
// The twin of src/equiscope/symmetry/measure.py.
import type { Action } from "./actions";
import type { ProgramRecord } from "./contract";
import { Program } from "./program";
import type { Tensor } from "./tensor";

export type Verdict = "holds" | "approximate" | "broken" | "undecided";
export const PRECISION = 2 ** -29; // eps(float64) / eps(float32)
export const BORDER = 0.4; // precision exponent: rounding has about 1, its square root 0.5, a violation 0
export const TOLERANCE = 1e-2; // a true violation below this is called approximate

/** error in float64, the same in float32, the rounding floor of f in float64, and what follows. */
export interface Measurement {
  error: number;
  error32: number;
  floor: number;
  verdict: Verdict;
}

/** Size of the difference over the size of what was wanted; 0 where both are 0. Throws where the shapes differ. */
export function relativeError(found: Tensor, wanted: Tensor): number {
  if (String(found.shape) !== String(wanted.shape))
    throw new Error(`Shapes [${found.shape}] and [${wanted.shape}] cannot be compared.`);
  let [difference, whole] = [0, 0];
  for (let i = 0; i < wanted.data.length; i++) {
    difference += (found.data[i] - wanted.data[i]) ** 2;
    whole += wanted.data[i] ** 2;
  }
  if (difference === 0) return 0;
  return whole > 0 ? Math.sqrt(difference) / Math.sqrt(whole) : Infinity;
}

/** holds, approximate or broken, from the error in float64 and in float32; not finite is undecided. */
export function verdict(error: number, error32: number, tolerance = TOLERANCE): Verdict {
  if (!(error < Infinity && error32 < Infinity)) return "undecided";
  if (error === 0 || error < error32 * PRECISION ** BORDER) return "holds";
  return error < tolerance ? "approximate" : "broken";
}

/** The rounding error of a computation in float64: its error in float32, measured, times 2^-29. */
export const floor = (in32: Tensor, in64: Tensor): number => relativeError(in32, in64) * PRECISION;

/** Equivariance of one value of a program under one action; an output without token rows is compared as it is (invariance). */
export const equivariance = (
  programRecord: ProgramRecord,
  leaves: ReadonlyMap<string, Tensor>,
  action: Action,
  output: string,
): Measurement => equivariances(programRecord, leaves, action, [output])[0];

/** The same for several values, which share the work: four runs of the program, plain and moved, in float64 and in float32. */
export function equivariances(
  programRecord: ProgramRecord,
  leaves: ReadonlyMap<string, Tensor>,
  action: Action,
  outputs: string[],
): Measurement[] {
  const moved = action.onInput(programRecord, leaves);
  const runs = [undefined, Math.fround].map((round) => [
    new Program(programRecord, leaves, { round }),
    new Program(programRecord, moved, { round }),
  ]);
  const named = [...programRecord.leaves, ...programRecord.steps];
  return outputs.map((output) => {
    const axes = named.find(({ id }) => id === output)?.axes ?? [];
    const [in64, in32] = runs.map(([plain, after]) => ({
      plain: plain.get(output),
      error: relativeError(after.get(output), action.onOutput(plain.get(output), axes)),
    }));
    const least = floor(in32.plain, in64.plain); // by luck the error in float32 can be 0, where f itself does lose something
    return {
      error: in64.error,
      error32: in32.error,
      floor: least,
      verdict: verdict(in64.error, Math.max(in32.error, least / PRECISION)),
    };
  });
}

// --- what a table of numbers distinguishes, and whether it depends on distance only -----------------------------------------
const SAME = 1e-9; // rows closer than this, of numbers of size one in float64, count as equal

/** Whether two numbers of a value differ by more than rounding; size: of the largest number of the value. */
export const differs = (found: number, wanted: number, size: number): boolean =>
  !(found === wanted || (Number.isNaN(found) && Number.isNaN(wanted))) && !(Math.abs(found - wanted) <= SAME * size);

/** The number of distinct rows of a matrix, and the first two that are equal. */
export function distinctRows({ shape: [rows, columns], data }: Tensor): { count: number; collision?: [number, number] } {
  let [count, collision]: [number, [number, number] | undefined] = [0, undefined];
  for (let i = 0; i < rows; i++) {
    let twin = -1;
    for (let j = 0; j < i && twin < 0; j++) {
      let far = 0;
      for (let c = 0; c < columns; c++) far = Math.max(far, Math.abs(data[i * columns + c] - data[j * columns + c]));
      if (far < SAME) twin = j;
    }
    if (twin < 0) count++;
    else collision ??= [twin, i];
  }
  return { count, collision };
}

/** How much a square matrix varies along its diagonals, over its size: 0 if it depends on i − j only. */
export function alongDiagonals({ shape: [n], data }: Tensor): number {
  let [difference, whole] = [0, 0];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const first = i >= j ? data[(i - j) * n] : data[j - i];
      difference += (data[i * n + j] - first) ** 2;
      whole += data[i * n + j] ** 2;
    }
  }
  return whole > 0 ? Math.sqrt(difference / whole) : 0;
}

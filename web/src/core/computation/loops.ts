// Loops over strided numbers: a step becomes a function without arguments that runs it in the heap.
import { BEGINS, KERNELS, type Kernel } from "./kernels";
import type { Placed, View } from "./plan";
import { product } from "./product";

const LONG = 16; // numbers for which it pays to begin a loop

/** A step, prepared for a run. slot: the size of the slot that it writes. */
export function compiled(heap: Float64Array, step: Placed, slot: number): () => void {
  const loop = (step.op === "dot" && product(heap, step)) || strided(heap, step);
  const begin = BEGINS[step.op];
  if (begin === undefined) return loop;
  return () => {
    heap.fill(begin, step.whole, step.whole + slot);
    loop();
  };
}

/** Any step: one axis innermost, the next around it, and a table of where the rows of the others begin. */
function strided(heap: Float64Array, { op, shape, to, of }: Placed): () => void {
  const kernel: Kernel | undefined = KERNELS[op];
  if (!kernel) throw new Error(`There is no operation called '${op}'. Known: ${Object.keys(KERNELS).join(", ")}.`);
  const [inner, middle, ...others] = inwards(shape);
  const [n, m] = [inner === undefined ? 1 : shape[inner], middle === undefined ? 1 : shape[middle]];
  const views = [to, of[0], of[1] ?? of[0], of[2] ?? of[0]];
  const [so, sa, sb, sc] = views.map((view) => view.strides[inner] ?? 0);
  const [mo, ma, mb, mc] = views.map((view) => view.strides[middle] ?? 0);
  const [O, A, B, C] = views.map((view) => rows(view, shape, others));
  return () => {
    for (let row = 0; row < O.length; row++) {
      for (let i = 0; i < m; i++) {
        kernel(heap, n, O[row] + i * mo, so, A[row] + i * ma, sa, B[row] + i * mb, sb, C[row] + i * mc, sc);
      }
    }
  };
}

/** Axes, the longest first; of equal ones the last, whose numbers lie side by side. */
export const byLength = (shape: number[]): number[] => shape.map((_, axis) => axis).sort((a, b) => shape[b] - shape[a] || b - a);

/** Axes, the innermost first: the last one that is long, as its numbers lie nearest, or else the longest. */
function inwards(shape: number[]): number[] {
  const axes = byLength(shape);
  const long = axes.filter((axis) => shape[axis] >= LONG).sort((a, b) => b - a);
  return [...long, ...axes.filter((axis) => shape[axis] < LONG)];
}

/** Where in the heap a view's numbers begin, for every index of some axes. */
export function rows(view: View, shape: number[], axes: number[]): Int32Array {
  let begins = Int32Array.of(view.begin);
  for (const axis of axes) {
    const next = new Int32Array(begins.length * shape[axis]);
    for (let i = 0, k = 0; i < begins.length; i++) {
      for (let j = 0; j < shape[axis]; j++) next[k++] = begins[i] + j * view.strides[axis];
    }
    begins = next;
  }
  return begins;
}

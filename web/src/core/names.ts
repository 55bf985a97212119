// What rows, columns and values are called, and which colour a word has.
import type { Desk, Run } from "./desk";
import type { LeafRecord, StepRecord, ProgramRecord } from "./contract";

export const COLOURS = 8;

export interface Name {
  text: string;
  colour: number; // index into the palette, or -1 for none
}

/** Names of rows that are positions, not words. */
export const numbered = (from: number[]): Name[] => from.map((place) => ({ text: String(place), colour: -1 }));

export const value = (run: Run, id: string): LeafRecord | StepRecord => named(run.record.program, id);

const named = ({ leaves, steps }: ProgramRecord, id: string): LeafRecord | StepRecord =>
  (steps.find((s) => s.id === id) ?? leaves.find((l) => l.id === id))!;

/** Letters for a value of a run. */
export const letters = (run: Run, id: string): string => symbolOf(value(run, id), run.record.program);

const SHORT: Record<string, string> = { matmul: "·", multiply: "×", column: "↓", row: "→", maximum: "max" };

/** Letters for a value of a trace: its own symbol, else the module whose result it is, else the operation. */
export function symbolOf(found: LeafRecord | StepRecord, programRecord: ProgramRecord): string {
  if (found.symbol || !("op" in found)) return found.symbol || found.id;
  if (found.op === "function" || found.op === "activation") return String(found.params?.kind);
  if (found.op === "loops") return String(found.params?.call);
  if (found.op !== "transpose") return resultOf(found, programRecord) ?? SHORT[found.op] ?? found.op;
  const [base, under] = symbolOf(named(programRecord, found.inputs[0]), programRecord).split("_");
  const turned = base.endsWith("ᵀ") ? base.slice(0, -1) : `${/[+−·]/.test(base) ? `(${base})` : base}ᵀ`;
  return under ? `${turned}_${under}` : turned;
}

/** "o proj" for the value that leaves the module "blocks.0.attention.o_proj"; undefined for a step inside a module. */
function resultOf({ id, where }: StepRecord, { steps, outputs }: ProgramRecord): string | undefined {
  const name = where?.split(".").at(-1) ?? "";
  if (!name || /^\d+$/.test(name)) return undefined;
  const outside = (other = "") => other !== where && !other.startsWith(`${where}.`);
  const leaves = outputs.includes(id) || steps.some((step) => step.inputs.includes(id) && outside(step.where));
  return leaves ? name.replaceAll("_", " ") : undefined;
}

/** The key under which edits of a leaf are kept, or nothing where the page sets the numbers itself. */
export function editKey(run: Run, id: string): string | undefined {
  if (run.free) return id;
  const leaf = run.record.program.leaves.find((l) => l.id === id);
  if (!leaf) return undefined;
  if (leaf.kind === "content") return run.source ? "words" : undefined;
  return leaf.kind === "weight" || leaf.kind === "constant" ? (leaf.pool ?? undefined) : undefined;
}

/** Where an operation happened, as a heading: "blocks.0.attention_norm" is "norm attention". */
export function heading(where: string | undefined): string {
  const parts = (where ?? "").split(".").filter((part) => part && part !== "model" && part !== "blocks" && !/^\d+$/.test(part));
  const words = parts.at(-1)?.replaceAll("_", " ") ?? "residual stream";
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Indices of the leading axes that a matrix on screen shows: the chosen head, the first of anything else. */
export function lead(app: Desk, axes: string[], shape: number[]): number[] {
  return axes.slice(0, -2).map((axis, i) => (axis === "head" ? Math.min(app.state.head, shape[i] - 1) : 0));
}

/** Whose matrix is on screen, where a leading axis is words: ", for Love". */
export const slice = (app: Desk, axes: string[], shape: number[]): string =>
  axes
    .slice(0, -2)
    .flatMap((axis, i) => app.names(axis, shape[i])?.[0] ?? [])
    .map((name) => `, for ${name.text}`)
    .join("");

export const cellIndex = (rank: number, ahead: number[], row: number, column: number): number[] =>
  rank >= 2 ? [...ahead, row, column] : rank === 1 ? [column] : [];

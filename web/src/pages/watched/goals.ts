// What an exercise of the book asks of this page, marked by running the program with and without the edits.
import type { Marked } from "../../core/goals";
import { evaluate, leavesOf } from "../../core/program";
import type { WatchedDesk } from "./desk";
import { Watched } from "./program";

export const goals: Record<string, (desk: Pick<WatchedDesk, "programRecord" | "state" | "run">) => Marked> = {
  /** One number of an input is edited, and no other. Says how many rows of the output changed. */
  edited({ programRecord, state: { edits }, run }) {
    const inputs = programRecord.leaves.filter(({ kind }) => kind === "content").map(({ id }) => id);
    const places = Object.entries(edits).flatMap(([id, cells]) => Object.keys(cells).map((cell) => ({ id, cell })));
    if (!places.length) return { right: false, says: "No number has been changed." };
    if (places.length > 1 || !inputs.includes(places[0].id))
      return { right: false, says: "Change one number of the input, and no other." };
    const output = programRecord.outputs[0];
    const now = run.program.get(output);
    const before = evaluate(programRecord, leavesOf(programRecord), {}, Watched).get(output)!;
    const wide = now.shape.at(-1) ?? 1;
    const rows = Array.from({ length: now.data.length / wide }, (_, r) => now.data.subarray(r * wide, (r + 1) * wide).some((x, c) => x !== before.data[r * wide + c])); // prettier-ignore
    return { right: true, says: `${rows.filter(Boolean).length} of ${rows.length} rows of the output changed.` };
  },
};

// The state of the image page, kept in the link and in the undo history.
import type { Patches } from "../../core/contract";
import { edits, type Shown, whole, write } from "../../core/state";

export const SCALES = [0, 0.25, 0.5, 1, 2, 4]; // of the queries

/** patch: the selected one, row by row; scale: what the query weights are multiplied by; veil: whether a patch that is not attended to
 * is veiled. */
export interface ImageState extends Shown {
  patch: number;
  scheme: string;
  scale: number;
  veil: boolean;
}

export const count = ({ grid }: Patches): number => grid[0] * grid[1];

export function initial(record: Patches): ImageState {
  const order = Array.from({ length: count(record) }, (_, i) => i);
  return { patch: record.start, scheme: record.schemes[0].name, scale: 1, veil: true, order, head: 0, digits: 3, edits: {} };
}

/** What differs from the initial state, as a URL fragment. Patches are counted from 0. */
export function toHash(state: ImageState, record: Patches): string {
  const [begin, parts] = [initial(record), new URLSearchParams()];
  for (const key of ["patch", "scheme", "scale", "digits"] as const)
    if (state[key] !== begin[key]) parts.set(key, String(state[key]));
  if (!state.veil) parts.set("veil", "off");
  if (Object.keys(state.edits).length) parts.set("edits", write(state.edits));
  return parts.toString();
}

/** The state of a fragment; invalid parts keep their initial value. */
export function fromHash(hash: string, record: Patches): ImageState {
  const [parts, state] = [new URLSearchParams(hash.replace(/^#/, "")), initial(record)];
  state.patch = whole(parts.get("patch"), 0, count(record) - 1) ?? state.patch;
  state.scheme = record.schemes.find(({ name }) => name === parts.get("scheme"))?.name ?? state.scheme;
  state.scale = SCALES.find((one) => String(one) === parts.get("scale")) ?? state.scale;
  state.veil = parts.get("veil") !== "off";
  state.digits = whole(parts.get("digits"), 0, 8) ?? state.digits;
  state.edits = edits(parts.get("edits"));
  return state;
}

// The state of the image page.
import type { Patches } from "../../core/contract";
import { choice, type Code, digits, edits, field, fixed, flag, schema, type Schema, type Shown, whole } from "../../core/state";

export const SCALES = [0, 0.25, 0.5, 1, 2, 4]; // of the queries

/** patch: the selected one, row by row, from 0; scale: what the query weights are multiplied by; veil: whether a patch that is not
 * attended to is veiled; point: the number that is pointed at, of the selected patch, as its role and column: "features:1". */
export interface ImageState extends Shown {
  patch: number;
  scheme: string;
  scale: number;
  veil: boolean;
  point: string;
}

export const count = ({ grid }: Patches): number => grid[0] * grid[1];

export const stateOf = (record: Patches): Schema<ImageState> =>
  schema<ImageState>({
    patch: field(whole(0, count(record) - 1), record.start, { history: "none" }),
    scheme: field(choice(record.schemes.map(({ name }) => name)), record.schemes[0].name),
    scale: field(choice(SCALES), 1),
    veil: field(flag(), true, { history: "back" }),
    point: field(point, "", { history: "none" }),
    order: fixed(Array.from({ length: count(record) }, (_, i) => i)),
    head: fixed(0),
    digits: digits(3),
    edits: edits(),
  });

const point: Code<string> = {
  write: String,
  read: (text) => (/^[a-z]{1,20}:\d{1,4}$/.test(text) ? text : undefined),
};

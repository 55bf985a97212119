// All layers rolled out stand after the layers in the overview, and open like a head: two of them, from the mean and from the largest
// of the heads. What they are is said by the record; figures of heads do not count them.
import type { Heads, Layer } from "../contract";

const NAMES = ["from the mean of the heads", "from the largest of the heads"];

/** The record with its rolled-out layers as the last ones. */
export const withRolled = (record: Heads): Heads => ({ ...record, layers: [...record.layers, ...(record.rolled ?? [])] });

type Record = Pick<Heads, "layers"> & Partial<Pick<Heads, "rolled">>;

/** Whether a layer of such a record is all of them. */
export const isRolled = ({ layers, rolled }: Record, layer: number): boolean => layer >= layers.length - (rolled?.length ?? 0);

/** The layers that the model has. */
export const own = ({ layers, rolled }: Record): Layer[] => layers.slice(0, layers.length - (rolled?.length ?? 0));

/** "all layers, rolled out, from the mean of the heads" */
export const rolledName = ({ layers }: Pick<Heads, "layers">, layer: number, head: number): string =>
  `${layers[layer].where}, ${NAMES[head]}`;

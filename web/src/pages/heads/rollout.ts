// Attention rollout: it stands after the layers in the overview and opens like a head. There are two, from the mean and from the
// maximum over the heads. Statistics of heads do not count them.
import type { Heads, AttentionLayer } from "../../core/contract";

const NAMES = ["mean over heads", "maximum over heads"];

/** The record with the rollouts as the last layers. */
export const withRollout = (record: Heads): Heads => ({ ...record, layers: [...record.layers, ...(record.rollout ?? [])] });

type Record = Pick<Heads, "layers"> & Partial<Pick<Heads, "rollout">>;

/** Whether a layer of such a record is a rollout. */
export const isRollout = ({ layers, rollout }: Record, layer: number): boolean => layer >= layers.length - (rollout?.length ?? 0);

/** The layers that the model has. */
export const own = ({ layers, rollout }: Record): AttentionLayer[] => layers.slice(0, layers.length - (rollout?.length ?? 0));

/** "attention rollout, mean over heads" */
export const rolloutName = ({ layers }: Pick<Heads, "layers">, layer: number, head: number): string =>
  `${layers[layer].where}, ${NAMES[head]}`;

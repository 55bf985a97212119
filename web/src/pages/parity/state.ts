// The state of a comparison: which layers and steps are open. A layer is "3", its step "3.12".
import type { Parity } from "../../core/contract";
import { type Field, schema, type Schema } from "../../core/state";

export interface ParityState {
  open: string[];
}

export const stateOf = (parity: Parity): Schema<ParityState> => schema<ParityState>({ open: open(parity) });

/** open=3&open=3.12. At first the layer and the step of the first difference are open; none at all is "open=". */
const open = ({ layers = [] }: Parity): Field<string[], ParityState> => ({
  history: "undo",
  initial() {
    const layer = layers.findIndex(({ differs }) => differs);
    const step = (layers[layer]?.pairs ?? []).findIndex(({ state }) => state === "differs");
    return layer < 0 ? [] : [String(layer), `${layer}.${step}`];
  },
  write(keys, link) {
    for (const key of keys.length ? keys : [""]) link.append("open", key);
  },
  read: (link) => (link.has("open") ? [...new Set(link.getAll("open"))].filter((key) => exists(layers, key)) : undefined),
});

function exists(layers: NonNullable<Parity["layers"]>, key: string): boolean {
  if (!/^\d+(\.\d+)?$/.test(key)) return false;
  const [layer, step] = key.split(".").map(Number);
  return layer < layers.length && (step === undefined || step < (layers[layer].pairs ?? []).length);
}

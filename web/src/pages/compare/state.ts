// The selection on the page of a comparison. It is the link to the page.
export const BANDS = ["range", "spread", "seeds"] as const;
export const COSTS = ["seconds", "multiply_adds", "parameters", "memory", "tokens"] as const;

export interface CompareState {
  without: number[]; // hidden candidates, counted from 0
  band: (typeof BANDS)[number]; // the range over seeds, the standard deviation, or every seed
  log: boolean; // curves on a logarithmic axis
  end: boolean; // only the second half of training
  far: boolean; // extrapolation on a logarithmic axis
  cost?: (typeof COSTS)[number]; // by default the first that is known
}

export const initial = (): CompareState => ({ without: [], band: "range", log: false, end: false, far: false });

export function toHash(state: CompareState): string {
  const parts = new URLSearchParams();
  if (state.without.length) parts.set("without", state.without.join("."));
  if (state.band !== "range") parts.set("band", state.band);
  if (state.log) parts.set("axis", "log");
  if (state.end) parts.set("steps", "end");
  if (state.far) parts.set("extrapolation", "log");
  if (state.cost) parts.set("cost", state.cost);
  return parts.toString();
}

/** The state that a fragment describes; what is invalid is left out. */
export function fromHash(hash: string, count: number): CompareState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const without = (parts.get("without") ?? "").split(".").filter((text) => /^\d{1,4}$/.test(text));
  const known = [...new Set(without.map(Number))].filter((i) => i < count);
  return {
    without: known.length < count ? known : [],
    band: BANDS.find((one) => one === parts.get("band")) ?? "range",
    log: parts.get("axis") === "log",
    end: parts.get("steps") === "end",
    far: parts.get("extrapolation") === "log",
    cost: COSTS.find((one) => one === parts.get("cost")),
  };
}

// The selection on the page of a run. It is the link to the page.
export const OVERS = ["steps", "time"] as const;

export interface RunState {
  log: boolean; // the loss on a logarithmic axis
  over: (typeof OVERS)[number];
  smooth: number; // steps of the running mean; 0: by the length of the run
  at?: number; // samples and attention after this step; by default the last
  head?: [number, number]; // layer and head that are enlarged
}

export const initial = (): RunState => ({ log: false, over: "steps", smooth: 0 });

export function toHash(state: RunState): string {
  const parts = new URLSearchParams();
  if (state.log) parts.set("axis", "log");
  if (state.over !== "steps") parts.set("over", state.over);
  if (state.smooth) parts.set("smooth", String(state.smooth));
  if (state.at !== undefined) parts.set("at", String(state.at));
  if (state.head) parts.set("head", state.head.join("."));
  return parts.toString();
}

/** The state that a fragment describes; what is invalid is left out. */
export function fromHash(hash: string): RunState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const whole = (text: string | null) => (text !== null && /^\d{1,12}$/.test(text) ? Number(text) : undefined);
  const head = /^(\d{1,4})\.(\d{1,4})$/.exec(parts.get("head") ?? "");
  return {
    log: parts.get("axis") === "log",
    over: OVERS.find((one) => one === parts.get("over")) ?? "steps",
    smooth: whole(parts.get("smooth")) ?? 0,
    at: whole(parts.get("at")),
    head: head ? [Number(head[1]), Number(head[2])] : undefined,
  };
}

// All runs as CSV, for a spreadsheet or a script.
import type { Comparison } from "../../core/contract";
import { results } from "./candidates";
import { sizes } from "./groups";

/** One line for each run, with its final results and those at other sizes; quoted as in RFC 4180. */
export function csv(comparison: Comparison): string {
  const names = results(comparison.trials);
  const tried = sizes(comparison);
  const known = new Map(comparison.candidates.map((candidate) => [candidate.name, candidate]));
  const heads = ["candidate", "seed", "state", "reason", "value", ...names.map(([part, name]) => `${part} ${name}`), ...tried.map(({ factor }) => `value at ${factor}x`), "seconds", "tokens_a_second", "memory", "parameters", "multiply_adds", "steps", "folder"]; // prettier-ignore
  const lines = comparison.trials.map((trial) => {
    const { parameters, multiply_adds, steps } = known.get(trial.candidate) ?? {};
    const ends = names.map(([part, name]) => trial.result?.[part]?.[name]);
    const others = tried.map(({ factor }) => (trial.extrapolation ?? []).find((one) => one.factor === factor)?.value);
    return [trial.candidate, trial.seed, trial.state, trial.reason, trial.value, ...ends, ...others, trial.seconds, trial.tokens, trial.memory, parameters, multiply_adds, steps, trial.folder]; // prettier-ignore
  });
  return [heads, ...lines].map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function quoted(value: string | number | null | undefined): string {
  const text = value == null ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A file name that every file system accepts. */
export const named = (title: string): string =>
  title.replace(/[^\w.-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 80) || "comparison"; // prettier-ignore

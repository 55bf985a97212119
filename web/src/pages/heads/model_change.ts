// A change of the model, as a text of the link and of the request; record/interventions.py lists what the texts mean.
import type { Heads, TokenSequence } from "../../core/contract";
import { capital } from "../../core/format";
import { spoken } from "../../core/labels";
import type { Code } from "../../core/state";
import { headName, layerName } from "./mosaic";

const ACTIONS = ["zero", "mean", "scale", "patch", "freeze", "cut", "set", "move"] as const;
const VALUED = ["scale", "set", "move"];
const TEXT = /^([a-z]+)_([a-z]+)(?:_([\d.]*))?(?:_([\d.]*))?(?:_(-?\d[\d.e+-]*))?$/;
const LARGEST = 1e6;

export interface Change {
  action: (typeof ACTIONS)[number];
  of: "output" | "weights" | "q" | "k" | "v" | "stream" | "token";
  where: number[]; // layer, or layer and head
  tokens: number[]; // a token; or a query and a key; or a token and a feature
  value?: number;
}

const numbers = (text = ""): number[] => text.split(".").filter(Boolean).map(Number);

/** heads: how many each layer has. */
export const changeCode = (heads: number[]): Code<Change> => ({
  write: ({ action, of, where, tokens, value }) =>
    [action, of, where.join("."), tokens.join("."), value ?? ""].join("_").replace(/_+$/, ""),
  read(text) {
    const found = TEXT.exec(text);
    if (!found || !(ACTIONS as readonly string[]).includes(found[1])) return undefined;
    const [where, tokens] = [numbers(found[3]), numbers(found[4])];
    const value = found[5] === undefined ? undefined : Number(found[5]);
    const known = where.length ? where[0] < heads.length && (where[1] ?? 0) < heads[where[0]] : found[2] === "token";
    const change = { action: found[1], of: found[2], where, tokens, ...(value === undefined ? {} : { value }) } as Change;
    const finite = value === undefined || Math.abs(value) <= LARGEST;
    const count = { cut: 2, set: 2, move: 1 }[found[1]] ?? (found[2] === "stream" && tokens.length ? 1 : 0);
    const whole = tokens.length === count && VALUED.includes(found[1]) === (value !== undefined);
    return known && finite && whole && WORDS[`${change.action} ${change.of}`] ? change : undefined;
  },
});

type Words = (name: string, tokens: string[], change: Change) => string;
const of = { output: "the output", q: "the queries", k: "the keys", v: "the values" };
const WORDS: Record<string, Words> = {
  "freeze weights": (name) => `Freeze the pattern of ${name}`,
  "patch weights": (name) => `Take the pattern of ${name} from the second input`,
  "patch stream": (name, [token]) => `Take ${token ?? "every token"} entering ${name} from the second input`,
  "cut weights": (name, [query, key]) => `${capital(name)}: ${query} no longer attends to ${key}`,
  "set weights": (name, [query, key], { value }) => `${name}: the weight of ${query} on ${key} is ${value}`,
  "move token": (_, [token], { value }) => `Move ${token} to position ${value}`,
};
for (const [part, words] of Object.entries(of)) {
  WORDS[`zero ${part}`] = (name) => `Set ${words} of ${name} to 0`;
  WORDS[`scale ${part}`] = (name, _, { value }) => `Scale ${words} of ${name} by ${value}`;
  WORDS[`patch ${part}`] = (name) => `Take ${words} of ${name} from the second input`;
}
WORDS["mean output"] = (name) => `Set the output of ${name} to its mean`;
for (const part of ["q", "k"])
  WORDS[`set ${part}`] = (name, [token], { tokens, value }) => `${name}: feature ${tokens[1]} of ${part} of ${token} is ${value}`;

/** A change in words. line: the tokens of the input. */
export function changeWords(record: Heads, line: TokenSequence, change: Change): string {
  const [layer, head] = change.where;
  const one = record.layers[layer];
  const lines = one ? [record.sequences[change.of === "k" ? one.key_sequence : one.query_sequence], record.sequences[one.key_sequence]] : [line, line]; // prettier-ignore
  const name = !one ? "" : head === undefined ? `${change.of === "stream" ? "" : "every head of "}${layerName(record, layer)}` : headName(record, layer, head); // prettier-ignore
  return WORDS[`${change.action} ${change.of}`](
    name,
    change.tokens.map((token, i) => spoken(lines[Math.min(i, 1)], token)),
    change,
  );
}

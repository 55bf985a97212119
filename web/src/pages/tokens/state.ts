// The state of the tokens page.
import { choice, field, type Field, optional, real, schema, type Schema, whole } from "../../core/state";

export const KINDS = ["sound", "picture", "film"] as const;
export type Kind = (typeof KINDS)[number];
export const WAYS = ["frames", "mel", "patches"] as const;
export type Way = (typeof WAYS)[number];

/** The selection in one section. Everything is counted from 0. */
export interface Chosen {
  cut: number; // index of the tokenization in the record
  way: Way; // of a sound, which of its three tokenizations
  token?: number; // default: the middle one
  number: number; // index into the token's numbers
  frame?: number; // of a film; default: the first of the token
  span: number; // seconds of a sound in view; 0: all
}

export type TokensState = { see: Kind } & Record<Kind, Chosen>;

const index = whole(0, 1e8 - 1);

export const chosen: Schema<Chosen> = schema<Chosen>({
  cut: field(index, 0, { history: "back" }),
  way: field(choice(WAYS), "mel", { history: "back" }),
  token: optional(index, { history: "none" }),
  number: field(index, 0, { history: "none" }),
  frame: optional(index, { history: "none" }),
  span: field(real(0, Number.MAX_VALUE), 0, { history: "none" }),
});

/** The section that is seen has the names of its fields; the others stand behind their own: film=cut%3D2. */
const section: Field<Chosen, TokensState> = {
  history: "back",
  initial: () => chosen.initial(),
  write(value, link, name, { see }) {
    const own = chosen.write(value);
    if (name !== see) link.set(name, own);
    else for (const [key, text] of new URLSearchParams(own)) link.set(key, text);
  },
  read: (link, name, { see }) => chosen.read(name === see ? link.toString() : (link.get(name) ?? "")),
};

export const stateOf = (kinds: Kind[]): Schema<TokensState> =>
  schema<TokensState>({
    see: field(choice(kinds), kinds[0] ?? "sound", { history: "back" }),
    sound: section,
    picture: section,
    film: section,
  });

/** A number if it is valid, else the default. */
export const within = (value: number | undefined, count: number, otherwise: number): number =>
  typeof value === "number" && value >= 0 && value < count ? value : otherwise;

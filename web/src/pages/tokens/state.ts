// The state of the tokens page, kept in the link for the open section.
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
  span: number; // seconds of a sound in view; 0: all
  frame?: number; // of a film; default: the first of the token
}

export type TokensState = { see: Kind } & Record<Kind, Chosen>;

export const chosen = (): Chosen => ({ cut: 0, way: "mel", number: 0, span: 0 });

export const initial = (kinds: Kind[]): TokensState => ({
  see: kinds[0] ?? "sound",
  sound: chosen(),
  picture: chosen(),
  film: chosen(),
});

export function toHash(state: TokensState, kinds: Kind[]): string {
  const [parts, now] = [new URLSearchParams(), state[state.see]];
  if (state.see !== kinds[0]) parts.set("see", state.see);
  if (now.cut) parts.set("cut", String(now.cut));
  if (now.way !== "mel") parts.set("way", now.way);
  if (typeof now.token === "number") parts.set("token", String(now.token));
  if (now.number) parts.set("number", String(now.number));
  if (typeof now.frame === "number") parts.set("frame", String(now.frame));
  if (now.span) parts.set("span", String(now.span));
  return parts.toString();
}

/** The state of a fragment; invalid parts are ignored. before: the state of the other sections. */
export function fromHash(hash: string, kinds: Kind[], before: TokensState = initial(kinds)): TokensState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const see = kinds.find((kind) => kind === parts.get("see")) ?? kinds[0] ?? "sound";
  const span = Number(parts.get("span") ?? 0);
  const now: Chosen = {
    cut: index(parts.get("cut")) ?? 0,
    way: WAYS.find((way) => way === parts.get("way")) ?? "mel",
    token: index(parts.get("token")),
    number: index(parts.get("number")) ?? 0,
    span: span > 0 && Number.isFinite(span) ? span : 0,
    frame: index(parts.get("frame")),
  };
  return { ...before, see, [see]: now };
}

/** "3" as 3; undefined for what is not a whole number. */
const index = (text: string | null): number | undefined => (/^\d{1,8}$/.test(text ?? "") ? Number(text) : undefined);

/** A number if it is valid, else the default. */
export const within = (value: number | undefined, count: number, otherwise: number): number =>
  typeof value === "number" && value >= 0 && value < count ? value : otherwise;

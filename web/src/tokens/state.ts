// What a person has chosen on the page of tokens. It is the link to the page: of the thing that is open.
export const KINDS = ["sound", "picture", "film"] as const;
export type Kind = (typeof KINDS)[number];
export const WAYS = ["frames", "mel", "patches"] as const;
export type Way = (typeof WAYS)[number];

/** What is chosen of one thing. Numbers count from 0 here, from 1 in the link. */
export interface Chosen {
  cut: number; // which way to cut, in the order of the record
  way: Way; // of a sound, which of its three kinds of token
  token?: number; // unless said, the middle one
  number: number; // of the token's numbers
  span: number; // seconds of a sound that are seen; 0: all
  frame?: number; // of a film; unless said, the first of the token
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
  if (now.cut) parts.set("cut", String(now.cut + 1));
  if (now.way !== "mel") parts.set("way", now.way);
  if (typeof now.token === "number") parts.set("token", String(now.token + 1));
  if (now.number) parts.set("number", String(now.number + 1));
  if (typeof now.frame === "number") parts.set("frame", String(now.frame + 1));
  if (now.span) parts.set("span", String(now.span));
  return parts.toString();
}

/** The state that a fragment describes; what makes no sense is left out. before: what other things keep. */
export function fromHash(hash: string, kinds: Kind[], before: TokensState = initial(kinds)): TokensState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const see = kinds.find((kind) => kind === parts.get("see")) ?? kinds[0] ?? "sound";
  const span = Number(parts.get("span") ?? 0);
  const now: Chosen = {
    cut: counted(parts.get("cut")) ?? 0,
    way: WAYS.find((way) => way === parts.get("way")) ?? "mel",
    token: counted(parts.get("token")),
    number: counted(parts.get("number")) ?? 0,
    span: span > 0 && Number.isFinite(span) ? span : 0,
    frame: counted(parts.get("frame")),
  };
  return { ...before, see, [see]: now };
}

/** "3" as 2, nothing where it is something else. */
const counted = (text: string | null): number | undefined => (/^[1-9]\d{0,7}$/.test(text ?? "") ? Number(text) - 1 : undefined);

/** A number that there is: itself, or what stands for it. */
export const within = (value: number | undefined, count: number, otherwise: number): number =>
  typeof value === "number" && value >= 0 && value < count ? value : otherwise;

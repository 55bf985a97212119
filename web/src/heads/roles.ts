// What heads do, in words. The figures are measured; the role is what they come to.
import type { Head } from "../contract";
import { h } from "../dom";
import type { Role } from "./state";

export const SAYS: Record<Role, { title: string; about: string }> = {
  previous: { title: "previous token", about: "looks at the token before" },
  self: { title: "itself", about: "looks at the token itself" },
  first: { title: "first token", about: "rests on the first token, where what it brings often does nothing" },
  content: { title: "content", about: "chooses by what the tokens are, wherever they stand" },
  even: { title: "even", about: "spreads over all that it may see" },
  mixed: { title: "mixed", about: "does several of these" },
};

export type Figure = "previous" | "own" | "first" | "entropy" | "distance" | "content" | "diagonal";

export const FIGURES: { name: Figure; title: string; about: string }[] = [
  { name: "previous", title: "previous", about: "Mean weight on the token just before the one that asks." },
  { name: "own", title: "itself", about: "Mean weight on the token that asks." },
  { name: "first", title: "first", about: "Mean weight on the first token." },
  { name: "entropy", title: "entropy", about: "0: one token has all of a row's weight; 1: all that may be seen have the same." },
  { name: "distance", title: "distance", about: "Tokens between who asks and who is looked at, weighted." },
  { name: "content", title: "content", about: "Share of the weights' variation that neither the distance nor the place explains." },
  { name: "diagonal", title: "straight", about: "Of tokens that look at another line: share of rows whose largest weight lies on the straight way from the first token to the last, at most one token beside it. In brackets: of links drawn by chance." }, // prettier-ignore
];

/** A figure as it stands in a table. */
export const figure = (head: Head, name: Figure): string => {
  const value = head[name];
  if (value === null || value === undefined) return "–";
  const chance = name === "diagonal" && head.straight != null ? ` (${head.straight.toFixed(2)})` : "";
  return value.toFixed(name === "distance" ? 1 : 2) + chance;
};

/** "previous 0.93, itself 0.02, ...": what a screen reader says of a head. */
export const figures = (head: Head): string =>
  FIGURES.filter(({ name }) => head[name] != null)
    .map(({ name, title }) => `${title} ${figure(head, name)}`)
    .join(", ");

/** The figures that any of these heads has. */
export const counted = (heads: Head[]) =>
  FIGURES.filter(({ name }) => name !== "diagonal" || heads.some((head) => head[name] != null));

export const badge = (role: Role): HTMLElement => h("span.role", { "data-role": role }, SAYS[role].title);

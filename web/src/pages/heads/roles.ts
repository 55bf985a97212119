// The roles of heads in words. The figures are measured; the role follows from them.
import type { HeadStatistics } from "../../core/contract";
import { h } from "../../core/dom";
import type { Role } from "./state";

export const ROLE_TEXT: Record<Role, { title: string; about: string }> = {
  previous: { title: "previous token", about: "attends to the previous token" },
  self: { title: "same token", about: "attends to the query token itself" },
  first: { title: "first token", about: "attends to the first token, an attention sink whose value often contributes little" },
  content: { title: "content", about: "attends by content, whatever the positions" },
  uniform: { title: "uniform", about: "attends almost uniformly to all unmasked tokens" },
  mixed: { title: "mixed", about: "combines several of these" },
};

export type Figure = "previous" | "own" | "first" | "entropy" | "distance" | "content" | "diagonal";

export const FIGURES: { name: Figure; title: string; about: string }[] = [
  { name: "previous", title: "previous", about: "Mean weight on the token before the query." },
  { name: "own", title: "same", about: "Mean weight on the query token itself." },
  { name: "first", title: "first", about: "Mean weight on the first token." },
  {
    name: "entropy",
    title: "entropy",
    about: "Normalized entropy of a row: 0 where one key has all the weight, 1 where all unmasked keys have the same.",
  },
  {
    name: "distance",
    title: "distance",
    about: "Mean distance |query position − key position|, weighted by the attention weights.",
  },
  {
    name: "content",
    title: "content",
    about: "Share of the weights' variance that neither the distance nor the key position explains.",
  },
  { name: "diagonal", title: "diagonal", about: "In cross-attention: share of queries whose largest weight lies within one token of the diagonal. In brackets: chance level." }, // prettier-ignore
];

/** A figure as it stands in a table. */
export const figure = (head: HeadStatistics, name: Figure): string => {
  const value = head[name];
  if (value === null || value === undefined) return "–";
  const chance = name === "diagonal" && head.diagonal_chance != null ? ` (${head.diagonal_chance.toFixed(2)})` : "";
  return value.toFixed(name === "distance" ? 1 : 2) + chance;
};

/** "previous 0.93, same 0.02, ...": what a screen reader says of a head. */
export const figures = (head: HeadStatistics): string =>
  FIGURES.filter(({ name }) => head[name] != null)
    .map(({ name, title }) => `${title} ${figure(head, name)}`)
    .join(", ");

/** The figures that any of these heads has. */
export const presentFigures = (heads: HeadStatistics[]) =>
  FIGURES.filter(({ name }) => name !== "diagonal" || heads.some((head) => head[name] != null));

export const badge = (role: Role): HTMLElement => h("span.role", { "data-role": role }, ROLE_TEXT[role].title);

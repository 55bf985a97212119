// What the exercises of the book ask of this page.
import type { Goals, Marked } from "../../core/goals";
import { capital } from "../../core/format";
import type { TokensPage } from "./page";
import { whole } from "./counts";
import { within } from "./state";
import { cellOf, type Size, tokenOf } from "./tubelets";

const [REFERENCE, MORE, MOMENT] = [16, 16, 0.3]; // pixels; times the pairs; seconds
const no = (says: string): Marked => ({ right: false, says });
const yes = (says: string): Marked => ({ right: true, says: capital(says) });

const GOALS: Record<string, (page: TokensPage) => Marked> = {
  /** The cut of the picture with 16 times the pairs of patches of 16 × 16. */
  "sixteenfold-pairs": ({ record, state }) => {
    const cuts = record.picture?.cuts ?? [];
    if (state.see !== "picture" || !cuts.length) return no("Look at the picture.");
    const tokens = ({ grid }: { grid: number[] }) => grid[0] * grid[1];
    const [cut, reference] = [cuts[within(state.picture.cut, cuts.length, 0)], cuts.find(({ side }) => side === REFERENCE)!];
    const times = (tokens(cut) / tokens(reference)) ** 2;
    const counted = `${whole(tokens(cut))} tokens make ${whole(tokens(cut) ** 2)} pairs, ${times === 1 ? "as many as" : `${Number(times.toPrecision(3))} times as many as`} with patches of 16 × 16.`; // prettier-ignore
    return cut.kind === "patches" && times === MORE ? yes(counted) : no(counted);
  },

  /** A token of energies whose slice of the sound contains a moment. */
  "slice-of-a-moment": ({ record, state }) => {
    const { sound } = record;
    if (state.see !== "sound" || !sound) return no("Listen to the sound.");
    const { cut: chosen, way, token: given } = state.sound;
    const cut = sound.cuts[within(chosen, sound.cuts.length, 0)];
    if (way !== "mel") return no("Choose the log-mel frames, whose slices overlap.");
    const count = cut.mel.shape[0];
    const token = within(given, count, Math.floor(count / 2));
    const [from, to] = [token * cut.hop, token * cut.hop + cut.window].map((sample) => sample / sound.rate);
    const covers = `Token ${token} covers ${from.toFixed(3)} s to ${to.toFixed(3)} s`;
    return from <= MOMENT && MOMENT < to ? yes(`${covers}.`) : no(`${covers}.`);
  },

  /** The tubelet that follows the middle one in time. */
  "next-in-time": ({ record, state }) => {
    const { film } = record;
    if (state.see !== "film" || !film) return no("Look at the film.");
    const grid = film.cuts[within(state.film.cut, film.cuts.length, 0)].grid as Size;
    const middle = tokenOf(grid, grid.map((n) => Math.floor(n / 2)) as Size);
    const token = within(state.film.token, grid[0] * grid[1] * grid[2], middle);
    const [begin, now] = [cellOf(grid, middle), cellOf(grid, token)];
    if (token === middle) return no(`This is token ${middle}, the one of the beginning.`);
    if (now[1] !== begin[1] || now[2] !== begin[2]) return no(`Token ${token} is at another row or column than token ${middle}.`);
    return now[0] === begin[0] + 1
      ? yes(`token ${token} is ${token - middle} after token ${middle}, ${grid[1]} rows times ${grid[2]} columns.`)
      : no(`Token ${token} is at the same row and column, but ${now[0] < begin[0] ? "earlier" : "more than one step later"}.`);
  },
};

export const goalsOf = (page: TokensPage): Goals =>
  Object.fromEntries(Object.entries(GOALS).map(([name, goal]) => [name, () => goal(page)]));

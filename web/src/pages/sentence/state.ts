// The state of the page of a sentence.
import type { Explorable } from "../../core/contract";
import {
  choice,
  type Code,
  digits,
  edits,
  field,
  flag,
  json,
  order,
  schema,
  type Schema,
  type Shown,
  whole,
} from "../../core/state";

export const STORIES = ["numbers", "shuffle", "positions", "slide", "clocks", "readouts"] as const;
/** Programs of the tour that show one kind of clocks each. */
export const WAVES = ["ladder", "pair", "sine"] as const;
/** Values up to which the numbers can be shown. */
export const UNTIL = ["mixed", "output"] as const;
export type StoryName = (typeof STORIES)[number];

/** schemes: those that are compared. until: the role of the last value whose steps are shown. point: the number that is pointed at, as
 * the role or the id of its value, row and column ("mixed:0,1"). */
export interface State extends Shown {
  story: StoryName;
  words: string[];
  scheme: string;
  versus: string;
  schemes: string[];
  until: string;
  point: string;
  causal: boolean;
  slide: number;
  position: number;
  step: number;
  waves: (typeof WAVES)[number];
}

export function stateOf(page: Explorable): Schema<State> {
  const scheme = choice(page.schemes.map(({ name }) => name));
  const length = Math.min(page.words.length, 8);
  return schema<State>({
    story: field(choice(STORIES), "numbers", { history: "back" }),
    words: field(json((found) => words(found, page.limit)), page.words), // prettier-ignore
    order: field(
      ({ words }) => order(words.length),
      ({ words }) => words.map((_, i) => i),
    ),
    scheme: field(scheme, page.scheme),
    versus: field(scheme, page.versus),
    schemes: field(compared(page), page.compared),
    until: field(choice(UNTIL), "output", { history: "back" }),
    point: field(point, "queries:0,0", { history: "none" }),
    causal: field(flag(), page.causal),
    slide: field(whole(0, page.max_positions), Math.min(11, page.max_positions - length)),
    head: field(whole(0, page.heads - 1), 0),
    digits: digits(),
    position: field(whole(0, 1000), 5),
    step: field(whole(0, 64), 5),
    waves: field(choice(WAVES), "ladder"),
    edits: edits(),
  });
}

/** "all", or the names of some schemes, which stand in the order of the page. */
const compared = ({ schemes }: Explorable): Code<string[]> => ({
  write: (chosen) => (chosen.length === schemes.length ? "all" : chosen.join(",")),
  read(text) {
    const listed = text.split(",");
    const chosen = schemes.map(({ name }) => name).filter((name) => text === "all" || listed.includes(name));
    return chosen.length ? chosen : undefined;
  },
});

/** A role, row and column: "queries:0,0"; empty for none. */
const point: Code<string> = {
  write: String,
  read: (text) => (/^([^:]{1,200}:\d{1,6},\d{1,6})?$/.test(text) ? text : undefined),
};

function words(found: unknown, limit: number): string[] | undefined {
  const fine =
    Array.isArray(found) &&
    found.length > 0 &&
    found.length <= limit &&
    found.every((w) => typeof w === "string" && w.length > 0 && w.length <= 200);
  return fine ? (found as string[]) : undefined;
}

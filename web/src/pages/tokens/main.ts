// The tokens page: a sound, a picture and a film as tokens.
import type { Tokenised } from "../../core/contract";
import type { Goals } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goalsOf } from "./goals";
import { mount, type TokensPage } from "./page";
import "../../core/style.css";

/** For scripts on the page, as `equiscope.tokens`, and the goals of exercises. */
export let tokens: TokensPage | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("tokenised");
if (place && record)
  read<Tokenised>(record).then((found) => {
    tokens = mount(found, place);
    goals = goalsOf(tokens);
  }, unreadable(place));

// The page of a comparison: the answer first, then everything that it rests on.
import type { Comparison } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import { type ComparePage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { comparison?: ComparePage } = {};
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("comparison");
if (place && record)
  read<Comparison>(record).then((found) => {
    running.comparison = mount(found, place);
    goals = goalsOn(GOALS, running.comparison);
  }, unreadable(place));

// The page of cost: formulas that are evaluated here, and times that were measured.
import type { Cost } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import { type CostPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { cost?: CostPage } = {};
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("cost");
if (place && record)
  read<Cost>(record).then((found) => {
    running.cost = mount(found, place);
    goals = goalsOn(GOALS, running.cost);
  }, unreadable(place));

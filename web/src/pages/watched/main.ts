// The page of a watched program: any module's values and the steps that computed them.
import type { ProgramRecord } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import type { WatchedDesk } from "./desk";
import { watched } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope.desk`. */
export let desk: WatchedDesk | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("programrecord");
if (place && record)
  read<ProgramRecord>(record).then((found) => {
    desk = watched(found, place);
    goals = goalsOn(GOALS, desk);
  }, unreadable(place));

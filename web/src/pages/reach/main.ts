// The page of reach.
import type { Reach } from "../../core/contract";
import type { Goals } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goalsOf } from "./goals";
import { mount, type ReachPage } from "./page";
import "../../core/style.css";
import "./reach.css";

/** What a script on the page may reach, as `equiscope.reach`, and the goals of exercises. */
export let reach: ReachPage | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("reach");
if (place && record)
  read<Reach>(record).then((found) => {
    reach = mount(found, place);
    goals = goalsOf(reach);
  }, unreadable(place));

// The page of attention among the patches of a photograph.
import type { Patches } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import type { ImageDesk } from "./desk";
import { mount } from "./page";
import "../../core/style.css";

/** For scripts on the page, as `equiscope.desk`. */
export let desk: ImageDesk | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("patches");
if (place && record)
  read<Patches>(record).then((found) => {
    desk = mount(found, place);
    goals = goalsOn(GOALS, desk);
  }, unreadable(place));

// The page of attention as messages on a graph.
import type { Messages } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import type { GraphDesk } from "./desk";
import { mount } from "./page";
import "../../core/style.css";

/** For scripts on the page, as `equiscope.desk`. */
export let desk: GraphDesk | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("messages");
if (place && record)
  read<Messages>(record).then((found) => {
    desk = mount(found, place);
    goals = goalsOn(GOALS, desk);
  }, unreadable(place));

// The page of all heads of a model: an overview of layers by heads first, one head on demand, down to a single number.
import type { Heads } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import { type HeadsPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope.heads`. */
export let heads: HeadsPage | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("heads");
if (place && record)
  read<Heads>(record).then((found) => {
    heads = mount(found, place);
    goals = goalsOn(GOALS, heads);
  }, unreadable(place));

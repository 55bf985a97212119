// The page of masks.
import type { Masks } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import { type MasksPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope.masks`. */
export let masks: MasksPage | undefined;
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("masks");
if (place && record)
  read<Masks>(record).then((found) => {
    masks = mount(found, place);
    goals = goalsOn(GOALS, masks);
  }, unreadable(place));

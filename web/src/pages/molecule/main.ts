// The page of a molecule.
import type { Molecule } from "../../core/contract";
import { type Goals, goalsOn, type Marked, onceSettled } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import type { MoleculeDesk } from "./desk";
import { mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope.desk`. */
export let desk: MoleculeDesk | undefined;
export let goals: Goals<Promise<Marked>> | undefined;

const place = document.getElementById("app");
const record = document.getElementById("molecule");
if (place && record)
  read<Molecule>(record).then((found) => {
    const made = mount(found, place);
    desk = made;
    goals = onceSettled(goalsOn(GOALS, made), () => made.settled());
  }, unreadable(place));

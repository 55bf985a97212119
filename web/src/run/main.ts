// The page of a run: what was trained, on which data, and what came of it; or what is coming of it now.
import type { Course } from "../contract";
import { read, unreadable } from "../read";
import { type Reading, reveal } from "./page";
import "../style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { run?: Reading } = {};

const place = document.getElementById("app");
const record = document.getElementById("course");
if (place && record) read<Course>(record).then((course) => (running.run = reveal(course, place)), unreadable(place));

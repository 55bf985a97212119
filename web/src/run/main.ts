// The page of a run, finished or in progress.
import type { RunReport } from "../contract";
import { read, unreadable } from "../read";
import { type RunPage, mount } from "./page";
import "../style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { run?: RunPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("runreport");
if (place && record) read<RunReport>(record).then((course) => (running.run = mount(course, place)), unreadable(place));

// The page of a run, finished or in progress.
import type { RunReport } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { type RunPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { run?: RunPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("runreport");
if (place && record) read<RunReport>(record).then((course) => (running.run = mount(course, place)), unreadable(place));

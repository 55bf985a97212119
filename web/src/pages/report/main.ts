// The report of a check: a page of its own.
import type { Report } from "../../core/contract";
import { type Goals, goalsOn } from "../../core/goals";
import { read, unreadable } from "../../core/read";
import { goals as GOALS } from "./goals";
import { type ReportPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { report?: ReportPage } = {};
export let goals: Goals | undefined;

const place = document.getElementById("app");
const record = document.getElementById("report");
if (place && record)
  read<Report>(record).then((page) => {
    running.report = mount(page, place);
    goals = goalsOn(GOALS, running.report);
  }, unreadable(place));

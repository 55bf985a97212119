// The report of a check: a page of its own.
import type { Report } from "../contract";
import { read, unreadable } from "../read";
import { type ReportPage, mount } from "./page";
import "../style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { report?: ReportPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("report");
if (place && record) read<Report>(record).then((page) => (running.report = mount(page, place)), unreadable(place));

// The report of a check: a page of its own.
import type { Report } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { type ReportPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { report?: ReportPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("report");
if (place && record) read<Report>(record).then((page) => (running.report = mount(page, place)), unreadable(place));

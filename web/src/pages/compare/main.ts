// The page of a comparison: the answer first, then everything that it rests on.
import type { Comparison } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { type ComparePage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { comparison?: ComparePage } = {};

const place = document.getElementById("app");
const record = document.getElementById("comparison");
if (place && record) read<Comparison>(record).then((found) => (running.comparison = mount(found, place)), unreadable(place));

// The page of reach.
import type { Reach } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { mount, type ReachPage } from "./page";
import "../../core/style.css";
import "./reach.css";

/** What a script on the page may reach, as `equiscope.reach`. */
export let reach: ReachPage | undefined;

const place = document.getElementById("app");
const record = document.getElementById("reach");
if (place && record) read<Reach>(record).then((found) => (reach = mount(found, place)), unreadable(place));

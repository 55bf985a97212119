// The page of attention as messages on a graph.
import type { Messages } from "../contract";
import { read, unreadable } from "../read";
import type { GraphDesk } from "./desk";
import { reveal } from "./page";
import "../style.css";

/** What a script on the page may reach, as `equiscope.desk`. */
export let desk: GraphDesk | undefined;

const place = document.getElementById("app");
const record = document.getElementById("messages");
if (place && record) read<Messages>(record).then((found) => (desk = reveal(found, place)), unreadable(place));

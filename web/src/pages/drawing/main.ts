// The page of a drawing: the parts of a model as boxes, each of which opens its numbers.
import type { Drawing } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import type { DrawingDesk } from "./desk";
import { draw } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope.desk`. */
export let desk: DrawingDesk | undefined;

const place = document.getElementById("app");
const record = document.getElementById("drawing");
if (place && record) read<Drawing>(record).then((found) => (desk = draw(found, place)), unreadable(place));

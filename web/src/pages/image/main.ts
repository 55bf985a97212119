// The page of attention among the patches of a photograph.
import type { Patches } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import type { ImageDesk } from "./desk";
import { mount } from "./page";
import "../../core/style.css";

/** For scripts on the page, as `equiscope.desk`. */
export let desk: ImageDesk | undefined;

const place = document.getElementById("app");
const record = document.getElementById("patches");
if (place && record) read<Patches>(record).then((found) => (desk = mount(found, place)), unreadable(place));

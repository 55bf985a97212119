// The page of a sentence reads its record.
import type { Explorable } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import type { Goals } from "../../core/goals";
import type { App } from "./app";
import { goalsOf } from "./goals";
import { start } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`: the running app, the goals of exercises, and the replay that tests hold to Python's numbers. */
export let app: App | undefined;
export let goals: Goals | undefined;
export { replay } from "../../core/replay";

const place = document.getElementById("app");
const record = document.getElementById("explorable");
if (place && record)
  read<Explorable>(record).then((found) => {
    app = start(found, place);
    goals = goalsOf(app);
  }, unreadable(place));

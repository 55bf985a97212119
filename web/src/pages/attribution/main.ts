// The page of an answer: which tokens, layers and parts decide it.
import type { Attribution } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { type AttributionPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { attribution?: AttributionPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("attribution");
if (place && record)
  read<Attribution>(record).then((content) => {
    running.attribution = mount(content, place);
  }, unreadable(place));

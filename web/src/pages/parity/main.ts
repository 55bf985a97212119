// The report of a comparison of two implementations: a page of its own.
import type { Parity } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { mount, type ParityPage } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { parity?: ParityPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("parity");
if (place && record)
  read<Parity>(record).then((page) => {
    running.parity = mount(page, place);
  }, unreadable(place));

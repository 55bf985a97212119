// The page of cost.
import type { Cost } from "../contract";
import { read, unreadable } from "../read";
import { reveal } from "./page";
import "../style.css";

const place = document.getElementById("app");
const record = document.getElementById("cost");
if (place && record) read<Cost>(record).then((found) => reveal(found, place), unreadable(place));

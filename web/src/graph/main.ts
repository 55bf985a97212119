// The page of graph.
import type { Messages } from "../contract";
import { read, unreadable } from "../read";
import { reveal } from "./page";
import "../style.css";

const place = document.getElementById("app");
const record = document.getElementById("messages");
if (place && record) read<Messages>(record).then((found) => reveal(found, place), unreadable(place));

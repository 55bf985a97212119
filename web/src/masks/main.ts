// The page of masks.
import type { Masks } from "../contract";
import { read, unreadable } from "../read";
import { reveal } from "./page";
import "../style.css";

const place = document.getElementById("app");
const record = document.getElementById("masks");
if (place && record) read<Masks>(record).then((found) => reveal(found, place), unreadable(place));

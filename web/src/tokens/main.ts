// The page of tokens.
import type { Tokenised } from "../contract";
import { read, unreadable } from "../read";
import { reveal } from "./page";
import "../style.css";

const place = document.getElementById("app");
const record = document.getElementById("tokenised");
if (place && record) read<Tokenised>(record).then((found) => reveal(found, place), unreadable(place));

// The page of tokens: what a transformer reads of a sound, a picture, a film.
import type { Tokenised } from "../contract";
import { read, unreadable } from "../read";
import { type Reading, reveal } from "./page";
import "../style.css";

/** What a script on the page may reach, as `equiscope.tokens`. */
export let tokens: Reading | undefined;

const place = document.getElementById("app");
const record = document.getElementById("tokenised");
if (place && record) read<Tokenised>(record).then((found) => (tokens = reveal(found, place)), unreadable(place));

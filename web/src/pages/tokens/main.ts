// The tokens page: a sound, a picture and a film as tokens.
import type { Tokenised } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { mount, type TokensPage } from "./page";
import "../../core/style.css";

/** For scripts on the page, as `equiscope.tokens`. */
export let tokens: TokensPage | undefined;

const place = document.getElementById("app");
const record = document.getElementById("tokenised");
if (place && record) read<Tokenised>(record).then((found) => (tokens = mount(found, place)), unreadable(place));

// The book: its text is in the page; this makes it one that can be walked through, and its figures part of the address.
import { Shell } from "./page";
import { Sentence } from "./sentence";
import "../../core/style.css";
import "./book.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { book?: Shell } = {};

const element = (id: string) => document.getElementById(id)!;
const { own, text } = JSON.parse(element("words").textContent!) as { own: string[]; text: string[] };
const sentence = own.join(" ") === text.join(" ") ? undefined : new Sentence(own, text);
running.book = new Shell(element("text"), element("contents"), element("bar"), sentence);

// Sentences come with numbers as a terminal writes them; the page writes all of its numbers alike.
import { scientific } from "../format";

/** Numbers of a sentence as the page writes them, and never apart at the end of a line: 2.9e-16 as 2.9·10⁻¹⁶. */
export const typeset = (text: string): string =>
  text.replace(/\b\d(?:\.\d+)?e-\d+\b/g, (found) => scientific(Number(found))).replace(/(\d) %/g, "$1\u00a0%");

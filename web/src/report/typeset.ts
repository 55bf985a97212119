// Sentences come with numbers as a terminal writes them; the page writes all of its numbers alike.
import { scientific } from "../format";

/** 2.9e-16 as 2.9·10⁻¹⁶, 4.1e-01 as 0.41; a percent sign never stands apart at the end of a line. */
export const typeset = (text: string): string =>
  text
    .replace(/(?<![\w.])\d(?:\.\d+)?e[+-]\d+(?!\w)/g, (found) =>
      Number(found) < 1e-3 ? scientific(Number(found)) : String(Number(found)),
    )
    .replace(/(\d) %/g, "$1\u00a0%");

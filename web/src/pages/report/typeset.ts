// Typesets the numbers of sentences that were written for a terminal.
import { scientific } from "../../core/format";

/** 2.9e-16 as 2.9·10⁻¹⁶, 4.1e-01 as 0.41; no line break before a percent sign. */
export const typeset = (text: string): string =>
  text
    .replace(/(?<![\w.])\d(?:\.\d+)?e[+-]\d+(?!\w)/g, (found) =>
      Number(found) < 1e-3 ? scientific(Number(found)) : String(Number(found)),
    )
    .replace(/(\d) %/g, "$1\u00a0%");

// A verdict as a shape and a word, so that colour is not needed. Filled: holds or fails. Hollow: need not hold.
import type { Row } from "../core/contract";
import { h, svg } from "../core/dom";

export const WORDS: Record<Row["verdict"], string> = {
  holds: "equal up to rounding",
  approximate: "a violation below the tolerance",
  broken: "a violation above the tolerance",
  "not applicable": "the statement does not apply to this model; the row gives the reason",
  undecided: "could not be decided; the row gives the reason",
};

const SHAPES: Record<Row["verdict"], string[]> = {
  holds: ["M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M4.8 8.2l2.2 2.3 4.2-4.6"],
  approximate: ["M8 1.2L15.2 14.4H.8z", "M5.6 11.4c.8-1.5 1.6-1.5 2.4-.7s1.6.8 2.4-.7"],
  broken: ["M4.9 1h6.2L15 4.9v6.2L11.1 15H4.9L1 11.1V4.9z", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"],
  "not applicable": ["M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M5 8h6"],
  undecided: ["M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M6 6.2c0-1.3 1-2 2-2s2 .7 2 1.8c0 1.5-2 1.6-2 3M8 11.4v.5"],
};

/** The colour of a row: holds; fails; not required and does not hold; undecided. */
export const tone = (row: Row): "holds" | "fails" | "not" | "undecided" =>
  row.fails
    ? "fails"
    : row.verdict === "undecided" || row.verdict === "not applicable"
      ? "undecided"
      : row.verdict === "holds"
        ? "holds"
        : "not";

export function shape(verdict: Row["verdict"]): SVGElement {
  const [outline, sign] = SHAPES[verdict];
  return svg(
    "svg.shape",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svg("path.outline", { d: outline }),
    svg("path.sign", { d: sign }),
  );
}

export const badge = (row: Row): HTMLElement =>
  h("span.judged", { title: WORDS[row.verdict] }, shape(row.verdict), h("span", row.verdict), row.fails && h("b.fails", "fails"));

// The style of each series: a colour, a dash pattern and a marker, each of which identifies it.
import { svg } from "../core/dom";

export const COLOURS = 8;
const DASHES = ["", "7 4", "2 3.5", "10 4 2 4", "14 5", "6 3 2 3 2 3"];
// Each marker around (0, 0), about 2 across.
const SIGNS = [
  "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0z",
  "M-.88-.88H.88V.88H-.88z",
  "M0-1.2L1.1.8H-1.1z",
  "M0-1.3L1.3 0L0 1.3L-1.3 0z",
  "M0 1.2L1.1-.8H-1.1z",
  "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4z",
  "M0-1.3L.4-.45L1.25-.4L.6.15L.8 1.05L0 .55L-.8 1.05L-.6.15L-1.25-.4L-.4-.45z",
  "M-.6-1.1H.6L1.2 0L.6 1.1H-.6L-1.2 0z",
  "M-1-.65L-.65-1L0-.35L.65-1L1-.65L.35 0L1 .65L.65 1L0 .35L-.65 1L-1 .65L-.35 0z",
  "M-1.3-.55H1.3V.55H-1.3z",
  "M-.55-1.3H.55V1.3H-.55z",
  "M1.15 0A1.15 1.15 0 1 1-1.15 0A1.15 1.15 0 1 1 1.15 0zM.5 0A.5.5 0 1 0-.5 0A.5.5 0 1 0 .5 0z",
];

export const colour = (look: number): number => look % COLOURS;
export const dashes = (look: number): string => DASHES[look % DASHES.length];

/** A marker at (x, y), `size` pixels from its centre to its edge. */
export function marker(look: number, x: number, y: number, size: number, tag = "path.sign"): SVGElement {
  const path = SIGNS[look % SIGNS.length];
  const place = `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`;
  return svg(tag, { d: path, transform: place, "vector-effect": "non-scaling-stroke" });
}

/** How a series looks. ink: attributes that give its colour, --look, where that does not follow from its look. */
export interface Look {
  look: number; // of its marker and its dashes
  ink?: Record<string, string>;
  line?: unknown; // whether there is a line
  plain?: boolean; // its line is not dashed
  signs?: "all" | "few" | "dots"; // where its marker is drawn
}

export const ink = ({ ink, look }: Look): Record<string, string> => ink ?? { "data-look": String(colour(look)) };

/** A legend key: a piece of the line with its marker. */
export const swatch = (one: Look): SVGElement =>
  svg(
    "svg.swatch",
    { viewBox: "0 0 28 14", width: 28, height: 14, "aria-hidden": "true", ...ink(one) },
    !!one.line && svg("line.thick", { x1: 0, x2: 28, y1: 7, y2: 7, "stroke-dasharray": one.plain ? "" : dashes(one.look) }),
    one.signs === "dots" ? svg("circle.sample", { cx: 14, cy: 7, r: 4 }) : one.signs && marker(one.look, 14, 7, 4.6),
  );

/** The key of a line with markers. */
export const keyOf = (look: number): SVGElement => swatch({ look, line: true, signs: "all" });

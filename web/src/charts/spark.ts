// A row of numbers as a line, with its ends named: for pages whose numbers stand elsewhere, and which need no scale to read.
import { svg } from "../core/dom";
import { number } from "../core/format";

const [WIDE, HIGH, LEFT, BELOW] = [420, 170, 44, 26]; // pixels

/** title: what the numbers are along. chosen: the index of the one with a dot. */
export function spark(values: number[], title: string, chosen: number): SVGElement {
  const [low, high] = [Math.min(0, ...values), Math.max(...values)];
  const x = (i: number) => LEFT + (i / Math.max(values.length - 1, 1)) * (WIDE - LEFT - 10);
  const y = (value: number) => 10 + ((high - value) / (high - low || 1)) * (HIGH - BELOW - 20);
  const text = (at: [number, number], content: string, anchor: string) =>
    svg("text.quiet", { x: at[0], y: at[1], "text-anchor": anchor, "font-size": 11 }, content);
  return svg(
    "svg.spark",
    {
      viewBox: `0 0 ${WIDE} ${HIGH}`,
      width: WIDE,
      height: HIGH,
      role: "img",
      "aria-label": `${title}: from ${number(low, 2)} to ${number(high, 2)}`,
    },
    [low, high].flatMap((value) => [
      svg("line.axis", { x1: LEFT, x2: WIDE - 10, y1: y(value), y2: y(value) }),
      text([LEFT - 6, y(value) + 4], number(value, 1), "end"),
    ]),
    svg("polyline", { points: values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" "), fill: "none", stroke: "var(--w0)", "stroke-width": 2 }), // prettier-ignore
    svg("circle", { cx: x(chosen), cy: y(values[chosen]), r: 5, fill: "var(--w0)" }),
    text([x(0), HIGH - BELOW + 10], "0", "middle"),
    text([x(values.length - 1), HIGH - BELOW + 10], String(values.length - 1), "end"),
    text([(WIDE + LEFT) / 2, HIGH - 4], title, "middle"),
  );
}

// A small line plot: one or a few rows of numbers against their index.
import { svg } from "../core/dom";
import { number } from "../core/format";

export interface Line {
  text: string;
  colour: number;
  values: ArrayLike<number>;
}

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [420, 190, 44, 30, 10];

export function plot(lines: Line[], from: number, horizontal: string, mark?: number): SVGElement {
  const all = lines.flatMap(({ values }) => Array.from(values));
  const [low, high] = [Math.min(0, ...all), Math.max(...all)];
  const count = lines[0]?.values.length ?? 0;
  const x = (i: number) => LEFT + (i / Math.max(count - 1, 1)) * (WIDTH - LEFT - 10);
  const y = (v: number) => TOP + ((high - v) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  const picture = svg("svg.plot", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    width: WIDTH,
    height: HEIGHT,
    role: "img",
    "aria-label": `${lines.map((l) => l.text).join(", ")} against ${horizontal}, from ${number(low, 2)} to ${number(high, 2)}`,
  });
  for (const v of [low, (low + high) / 2, high]) {
    picture.append(
      svg("line.axis", { x1: LEFT, x2: WIDTH - 10, y1: y(v), y2: y(v) }),
      svg("text.quiet", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end", "font-size": 11 }, number(v, 1)),
    );
  }
  for (const i of [0, Math.floor((count - 1) / 2), count - 1]) {
    picture.append(svg("text.quiet", { x: x(i), y: HEIGHT - 18, "text-anchor": "middle", "font-size": 11 }, number(from + i, 0)));
  }
  picture.append(svg("text.quiet", { x: (WIDTH + LEFT) / 2, y: HEIGHT - 4, "text-anchor": "middle", "font-size": 11 }, horizontal));
  for (const { text, colour, values } of lines) {
    const points = Array.from(values, (v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    picture.append(svg("polyline.line", { points, "data-colour": colour }, svg("title", text)));
  }
  if (mark !== undefined && lines[0])
    picture.append(svg("circle.tip", { cx: x(mark), cy: y(lines[0].values[mark]), r: 5, "data-colour": lines[0].colour }));
  return picture;
}

// Clocks: every pair of features is a hand that turns at its own speed. And the plane: words as points moved round a circle.
import { svg } from "../dom";
import { number } from "../format";

export interface Hand {
  angle: number; // radians; sine is shown to the right, cosine up, so a hand starts at twelve and turns clockwise
  speed: number; // radians a step
}

export function clocks(hands: Hand[], place: number): SVGElement {
  const [size, gap] = [92, 36];
  const width = hands.length * (size + gap);
  const picture = svg("svg.clocks", {
    viewBox: `0 0 ${width} ${size + 40}`,
    width,
    height: size + 40,
    role: "img",
    "aria-label": `clocks at place ${place}: ${hands.map((hand) => `${number(hand.angle, 2)} radians`).join(", ")}`,
  });
  hands.forEach(({ angle, speed }, i) => {
    const [x, y, r] = [i * (size + gap) + size / 2 + gap / 2, size / 2, size / 2 - 6];
    picture.append(
      svg("circle.face", { cx: x, cy: y, r }),
      svg("circle.trail", {
        cx: x,
        cy: y,
        r: r * 0.55,
        "stroke-dasharray": `${(Math.abs(angle) % (2 * Math.PI)) * r * 0.55} 1000`,
        transform: `rotate(-90 ${x} ${y})`,
      }),
      svg("line.hand", { x1: x, y1: y, x2: x + r * Math.sin(angle), y2: y - r * Math.cos(angle), "data-colour": i % 8 }),
      svg("circle.tip", { cx: x + r * Math.sin(angle), cy: y - r * Math.cos(angle), r: 4, "data-colour": i % 8 }),
      svg("text", { x, y: size + 12, "text-anchor": "middle", "font-size": 12 }, `${number(angle, 3)} rad`),
      svg(
        "text.quiet",
        { x, y: size + 28, "text-anchor": "middle", "font-size": 11 },
        `once in ${number((2 * Math.PI) / speed, 0)} places`,
      ),
    );
  });
  return picture;
}

export interface Point {
  text: string;
  colour: number;
  from: [number, number];
  by: [number, number];
}

/** Each word a point, carried by the encoding of its place, which lies on a circle around it. */
export function plane(points: Point[]): SVGElement {
  const ends = points.flatMap(({ from, by }) => [
    from,
    [from[0] + by[0], from[1] + by[1]],
    [from[0] + 1, from[1] + 1],
    [from[0] - 1, from[1] - 1],
  ]);
  const reach = Math.max(1.5, ...ends.flat().map(Math.abs)) * 1.1;
  const [size, unit] = [320, 160 / reach];
  const at = ([x, y]: number[]): [number, number] => [size / 2 + x * unit, size / 2 - y * unit];
  const picture = svg(
    "svg.plane",
    {
      viewBox: `0 0 ${size} ${size}`,
      width: size,
      height: size,
      role: "img",
      "aria-label": points
        .map(
          (p) =>
            `${p.text} from ${p.from.map((v) => number(v, 2))} to ${number(p.from[0] + p.by[0], 2)}, ${number(p.from[1] + p.by[1], 2)}`,
        )
        .join("; "),
    },
    svg("line.axis", { x1: 0, x2: size, y1: size / 2, y2: size / 2 }),
    svg("line.axis", { y1: 0, y2: size, x1: size / 2, x2: size / 2 }),
  );
  for (const { text, colour, from, by } of points) {
    const [[x, y], [u, v]] = [at(from), at([from[0] + by[0], from[1] + by[1]])];
    picture.append(
      svg("circle.orbit", { cx: x, cy: y, r: Math.hypot(...by) * unit, "data-colour": colour }),
      svg("circle.start", { cx: x, cy: y, r: 3, "data-colour": colour }),
      svg("line.hand", { x1: x, y1: y, x2: u, y2: v, "data-colour": colour }),
      svg("circle.tip", { cx: u, cy: v, r: 5, "data-colour": colour }),
      svg("text", { x: u + 8, y: v + 4, "data-colour": colour, "font-size": 13 }, text),
    );
  }
  return picture;
}

// Clocks: every pair of features is a hand that rotates at its own frequency. And the plane: words as points moved on a circle.
import { svg } from "../core/dom";
import { number } from "../core/format";

export interface Hand {
  angle: number; // radians; sine is shown to the right, cosine up, so a hand starts at twelve and turns clockwise
  speed: number; // radians a step
}

export function clocks(hands: Hand[], place: number): SVGElement {
  const [size, gap] = [92, 56];
  const width = hands.length * (size + gap);
  const picture = svg("svg.clocks", {
    viewBox: `0 0 ${width} ${size + 40}`,
    width,
    height: size + 40,
    role: "img",
    "aria-label": `clocks at position ${place}: ${hands.map((hand) => `${number(hand.angle, 2)} radians`).join(", ")}`,
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
        `period ${number((2 * Math.PI) / speed, 0)} positions`,
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

/** Each word as a point, moved by the encoding of its position, which lies on a circle around it. */
export function plane(points: Point[]): SVGElement {
  const circles = points.map(({ from: [x, y], by }) => [x, y, Math.hypot(...by)]);
  const [left, right, low, high] = [
    Math.min(0, ...circles.map(([x, , r]) => x - r)),
    Math.max(0, ...circles.map(([x, , r]) => x + r)),
    Math.min(0, ...circles.map(([, y, r]) => y - r)),
    Math.max(0, ...circles.map(([, y, r]) => y + r)),
  ];
  const unit = 300 / Math.max(right - left, high - low, 1);
  const [margin, named] = [14, 96]; // room for the words, which stand to the right of their points
  const at = ([x, y]: number[]): [number, number] => [margin + (x - left) * unit, margin + (high - y) * unit];
  const [width, height] = [(right - left) * unit + 2 * margin + named, (high - low) * unit + 2 * margin];
  const [[x0, y0]] = [at([0, 0])];
  const picture = svg(
    "svg.plane",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": points
        .map(
          (p) =>
            `${p.text} from ${p.from.map((v) => number(v, 2))} to ${number(p.from[0] + p.by[0], 2)}, ${number(p.from[1] + p.by[1], 2)}`,
        )
        .join("; "),
    },
    svg("line.axis", { x1: 0, x2: width - named, y1: y0, y2: y0 }),
    svg("line.axis", { y1: 0, y2: height, x1: x0, x2: x0 }),
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

// Attention as circles: the area is the weight of the row's query on the column's key.
import { type Desk, guarded, type Run } from "../core/desk";
import { h, svg } from "../core/dom";
import { number, symbol } from "../core/format";
import { cellIndex, lead, letters, value } from "../core/names";
import { matrixAt } from "../core/tensor";

const MOST = 24;

export function circles(app: Desk, run: () => Run, id: string): HTMLElement {
  const figure = h(
    "figure.matrix.circles",
    { "data-circles": id },
    h("figcaption", symbol(letters(run(), id)), h("span.label", "the same, as circles")),
  );
  guarded(app, figure, () => {
    figure.querySelector("svg")?.remove();
    const tensor = run().program.get(id);
    const ahead = lead(app, value(run(), id).axes, tensor.shape);
    const weights = matrixAt(tensor, ahead);
    const [rows, columns] = weights.shape;
    if (Math.max(rows, columns) > MOST) return;
    figure.append(draw(weights.data, rows, columns, ahead, tensor.shape.length));
  });
  return figure;

  function draw(data: Float64Array, rows: number, columns: number, ahead: number[], rank: number): SVGElement {
    const side = rows > 10 ? 20 : rows > 5 ? 40 : 52;
    const [left, top] = [84, 26];
    const words = app.names("token", columns)!;
    const picture = svg("svg", {
      viewBox: `0 0 ${left + columns * side} ${top + rows * side}`,
      width: left + columns * side,
      height: top + rows * side,
      role: "img",
      "aria-label": "attention weights as circles; rows are queries, columns are keys",
    });
    words.forEach(({ text, colour }, i) => {
      picture.append(
        svg(
          "text",
          {
            x: left - 6,
            y: top + (i + 0.5) * side,
            "text-anchor": "end",
            "dominant-baseline": "middle",
            "data-colour": colour,
            "font-size": 13,
          },
          clip(text, 11),
        ),
      );
      if (side > 30)
        picture.append(
          svg(
            "text",
            { x: left + (i + 0.5) * side, y: top - 8, "text-anchor": "middle", "data-colour": colour, "font-size": 11.5 },
            clip(text, rows > 5 ? 5 : 8),
          ),
        );
    });
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const weight = Number.isFinite(data[r * columns + c]) ? data[r * columns + c] : 0;
        const target = { run: run(), id, index: cellIndex(rank, ahead, r, c) };
        picture.append(
          svg(
            "circle",
            {
              cx: left + (c + 0.5) * side,
              cy: top + (r + 0.5) * side,
              r: (side / 2 - 1) * Math.sqrt(Math.max(weight, 0)),
              "data-colour": words[c]?.colour ?? -1,
              onpointerenter: () => app.point(target),
              onpointerleave: () => app.point(undefined),
              onclick: () => app.pin(target),
            },
            svg("title", `${words[r]?.text} attends to ${words[c]?.text}: ${number(weight, 3)}`),
          ),
        );
      }
    }
    return picture;
  }
}

const clip = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

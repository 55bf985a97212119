// One token of a picture or a film: its box enlarged, its numbers in order, and their linear projection.
import { digits } from "../../core/format";
import type { Projection } from "../../core/contract";
import { h } from "../../core/dom";
import { scientific } from "../../core/format";
import { type Colour, colour } from "../../charts/canvas";
import { unpack } from "../../core/tensor";
import { COLOURS, numberAt, numbersOf, type Pixels, placeOf, type Size } from "./tubelets";
import { type Cells, cells } from "./cells";
import { whole } from "./counts";

export interface Boxed {
  size: Size; // of a token, in frames, rows, columns
  begins: Size; // the first frame, row and column of its box
  grid: Size; // how many tokens there are along each axis
  token: number;
  number: number;
  title: string;
  where: string; // its position, as a sentence
  mapped?: Projection | null;
  outputs: string[];
  what: string; // the equivalent convolution, as a phrase
}

export interface BoxView {
  element: HTMLElement;
  maps: HTMLElement; // the linear projection of its numbers
  draw(box: Boxed): void;
}

const WIDE = 300; // pixels of an enlarged box, at most

export function box(pixels: Pixels, pick: (number: number) => void, open: (token: number) => void): BoxView {
  let now: Boxed;
  let pointed: number | undefined;
  const sheets = h("div.sheets");
  const frames: Cells[] = [];
  const strip = cells("div.strip", { pick, point: (i) => point(i) });
  const channels = h("div.switch", { role: "group", "aria-label": "channel" });
  const formula = h("output.formula-line", { "aria-live": "polite" });
  const title = h("h3");
  const where = h("p.where");
  const lined = h("p.quiet");
  const maps = h("div.maps");
  const element = h(
    "section.token",
    title,
    where,
    h("div.enlarged", sheets, h("div.numbers", channels, formula, lined, strip.element)),
  );

  function point(i: number | undefined): void {
    if (i === pointed) return;
    pointed = i;
    tell();
  }

  /** The formula of the hovered or selected number. */
  function tell(): void {
    const i = pointed ?? now.number;
    const { size, begins } = now;
    const place = placeOf(size, i);
    const byte = pixels.byte(begins[0] + place.f, begins[1] + place.y, begins[2] + place.x, place.c);
    const [t, rows, columns] = size;
    const at = t > 1 ? `((${place.c}·${t} + ${place.f})·${rows} + ${place.y})·${columns} + ${place.x}` : `(${place.c}·${rows} + ${place.y})·${columns} + ${place.x}`; // prettier-ignore
    formula.replaceChildren(
      h("i.sym", "x", h("sub", String(i))),
      ` = ${byte} / 255 = `,
      h("b.value", digits(Math.fround(byte / 255))),
      h("span.quiet.how", ` ${COLOURS[place.c]}${t > 1 ? `, frame ${place.f}` : ""}, row ${place.y}, column ${place.x} of its box: ${at} = ${i}`), // prettier-ignore
    );
  }

  return {
    element,
    maps,
    draw(next) {
      now = next;
      pointed = undefined;
      const { size, begins, number } = now;
      const [t, rows, columns] = size;
      const values = numbersOf(pixels, size, begins);
      const place = placeOf(size, number);
      title.textContent = now.title;
      where.textContent = now.where;
      while (frames.length < t) {
        const f = frames.length;
        const at = (i: number) => {
          const [, high, wide] = now.size;
          return numberAt(now.size, { c: placeOf(now.size, now.number).c, f, y: Math.floor(i / wide) % high, x: i % wide });
        };
        frames.push(cells("div.sheet", { pick: (i) => pick(at(i)), point: (i) => point(i === undefined ? undefined : at(i)) }));
      }
      const side = Math.max(3, Math.min(96, Math.floor(WIDE / columns / (t > 1 ? Math.min(t, 2) : 1))));
      frames.slice(0, t).forEach((sheet, f) =>
        sheet.draw({
          rows,
          columns,
          side,
          chosen: f === place.f ? place.y * columns + place.x : undefined,
          label: `${now.title}${t > 1 ? `, frame ${begins[0] + f}` : ""}: ${rows} by ${columns} pixels. Arrow keys select one.`,
          colour: (i) => [0, 1, 2].map((c) => pixels.byte(begins[0] + f, begins[1] + Math.floor(i / columns), begins[2] + (i % columns), c)) as Colour, // prettier-ignore
        }),
      );
      sheets.replaceChildren(
        ...frames.slice(0, t).map(({ element }, f) => h("figure", { style: `width:min(100%, ${columns * side}px)` }, element, t > 1 && h("figcaption.quiet", `frame ${begins[0] + f}`))), // prettier-ignore
      );
      channels.replaceChildren(
        ...COLOURS.map(
          (name, c) =>
          h("button", { type: "button", "aria-pressed": String(c === place.c), onclick: () => pick(numberAt(size, { ...place, c })) }, name), // prettier-ignore
        ),
      );
      const wide = Math.min(values.length, columns * Math.max(1, Math.floor(64 / columns)));
      lined.textContent = `All ${whole(values.length)} numbers of the token, flattened in the order of training: all of red, then green, then blue.`;
      strip.draw({
        rows: Math.ceil(values.length / wide),
        columns: wide,
        last: values.length,
        side: 7,
        chosen: number,
        label: `The ${values.length} numbers of the token in order. Arrow keys select one.`,
        colour: (i) => tinted(values[i], placeOf(size, i).c),
      });
      tell();
      maps.replaceChildren(...(now.mapped ? mapped(now, now.mapped, values, open) : []));
    },
  };
}

const TINTS: Colour[] = [
  [214, 60, 50],
  [52, 150, 70],
  [50, 105, 215],
];

/** The color for a value from 0 to 1 of a channel: from black over the channel's tint to nearly white. */
function tinted(value: number, c: number): Colour {
  return TINTS[c].map((part) => (value < 0.5 ? 2 * value * part : part + (2 * value - 1) * (255 - part) * 0.85)) as Colour;
}

/** Each output of the projection for this token, and for all. */
function mapped(
  box: Boxed,
  { weight, output: recorded, error: apart }: Projection,
  values: Float64Array,
  open: (token: number) => void,
): Node[] {
  const [weights, outputs] = [unpack(weight), unpack(recorded)];
  const many = box.outputs.length;
  const [, rows, columns] = box.grid;
  const tokens = rows * columns;
  const first = Math.floor(box.token / tokens) * tokens; // of its time span
  const [plus, less, paper] = [colour("--positive"), colour("--negative"), colour("--card")];
  const cards = box.outputs.map((name, j) => {
    let sum = 0;
    for (let i = 0; i < values.length; i++) sum += values[i] * weights.data[i * many + j];
    const own = outputs.data[box.token * many + j];
    const w = weights.data[box.number * many + j];
    let most = 0;
    for (let n = 0; n < outputs.shape[0]; n++) most = Math.max(most, Math.abs(outputs.data[n * many + j]));
    const map = cells("div.map", { pick: (i) => open(first + i) });
    map.draw({
      rows,
      columns,
      side: Math.max(3, Math.floor(150 / columns)),
      chosen: box.token - first,
      label: `${name} of all ${tokens} tokens${box.grid[0] > 1 ? " of this time span" : ""}. Arrow keys select one.`,
      colour: (i) => {
        const value = outputs.data[(first + i) * many + j] / (most || 1);
        return mixed(paper, value < 0 ? less : plus, Math.abs(value));
      },
    });
    return h(
      "div.output",
      { "data-output": String(j) },
      h("h4", name),
      map.element,
      h("p", h("i.sym", "y", h("sub", String(j))), " = Σ ", h("i", "x·W"), " = ", h("b.value", digits(own))),
      h("p.quiet", `sum of ${whole(values.length)} products, recomputed here: ${digits(sum)}; the selected number contributes ${digits(values[box.number])} · ${digits(w)}`), // prettier-ignore
    );
  });
  return [
    h("h3", `${whole(values.length)} numbers are projected to ${many}`),
    h("p.quiet", "The first layer of a model is a linear projection with a learned matrix W of hundreds of columns. These columns are set by hand, so that they can be read."), // prettier-ignore
    h("div.outputs", cards),
    h("p.measured", `${box.what} gives the same numbers: computed both ways in float64, the largest difference is ${apart === 0 ? "0" : `${scientific(apart)} of the largest output`}.`), // prettier-ignore
  ];
}

const mixed = (a: Colour, b: Colour, share: number): Colour => a.map((part, i) => part + (b[i] - part) * share) as Colour;

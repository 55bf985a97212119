// The smallest counterexample: the inputs with the changes marked.
import type { Array as Block, Counterexample } from "../../core/contract";
import { h } from "../../core/dom";
import { number } from "../../core/format";
import { unpack } from "../../core/tensor";

const [WORDS, ROWS, COLUMNS, FEW] = [24, 8, 24, 4]; // how much is shown; up to FEW columns are printed as numbers

/** What a transformation did to tokens: marks by position, their new order, or the sequence of a batch that changed. */
export interface Change {
  marked: (i: number, count: number) => string | undefined;
  order?: number[];
  sequence?: number;
  among?: string[]; // kinds of input that it changes; all by default
  drawn: string[]; // fields that the marks show
}

const WORDS_OF = ["ids", "features", "points", "tokens"]; // kinds of input that hold token content
const WITH_WORDS = [...WORDS_OF, "flags", "vectors", "atoms"]; // and those that are permuted with the tokens

/** What each input is, as in the record: "input_ids: ids [2, 9], position_ids: position_ids [1, 9]". */
export const kinds = (signature: string): Map<string, string> =>
  new Map([...signature.matchAll(/(?:^|, )([^\s:,]+): (\w+)/g)].map(([, name, kind]) => [name, kind]));

/** Read from the names of the element's fields, which all statements about tokens share. */
export function change(element: Record<string, unknown> | undefined): Change {
  const { order, changed, to, read } = element ?? {};
  if (Array.isArray(order) && order.every(Number.isInteger))
    return {
      order,
      among: WITH_WORDS,
      drawn: ["order"],
      marked: (i, count) => (count === order.length && order[i] !== i ? "moved" : undefined),
    };
  if (Number.isInteger(changed) && (to === null || Number.isInteger(to)))
    return {
      among: WORDS_OF,
      drawn: ["changed", "to"],
      marked: (i) => (i >= (changed as number) && i < ((to as number | null) ?? Infinity) ? "changed" : undefined),
    };
  if (Number.isInteger(changed)) return { sequence: changed as number, drawn: ["changed"], marked: () => undefined };
  if (Number.isInteger(read)) return { drawn: ["read"], marked: (i) => (i >= (read as number) ? "left out" : undefined) };
  return { drawn: [], marked: () => undefined };
}

export function counterexample(found: Counterexample, signature: string): HTMLElement {
  const what = change(found.element as Record<string, unknown>);
  const inputs = Object.entries(found.inputs ?? {});
  const kind = kinds(signature);
  const still: Change = { drawn: [], marked: () => undefined };
  const of = (name: string) => (!what.among || what.among.includes(kind.get(name) ?? "ids") ? what : still);
  return h(
    "div.given",
    inputs.map(([name, block]) => input(name, block, of(name))),
    !inputs.length && h("p.quiet", "The inputs are too large to show here."),
    rest(found.element as Record<string, unknown> | undefined, inputs.length ? what.drawn : []),
  );
}

function input(name: string, block: Block, what: Change): HTMLElement {
  const { shape } = block;
  const data = unpack(block).data;
  const words = block.dtype === "int64" || block.dtype === "bool" || shape.length < 2;
  const [rows, columns] = words ? [1, shape.at(-1) ?? 1] : [shape.at(-2)!, shape.at(-1)!];
  const many = Math.max(1, data.length / Math.max(rows * columns, 1));
  const heading = h(
    "p.named",
    h("code", name),
    h("span.quiet", ` ${shape.join(" × ")}${many > 1 && !words ? `, the first of ${many}` : ""}`),
  );
  if (words) {
    const lines = Array.from({ length: Math.min(many, 4) }, (_, i) => Array.from(data.subarray(i * columns, (i + 1) * columns)));
    return h(
      "div.input",
      heading,
      h(
        "div.sequences",
        lines.map((line, i) => tokens(line, what, i === what.sequence && lines.length > 1)),
      ),
      many > 4 && h("p.quiet", `and ${many - 4} more`),
    );
  }
  return h("div.input", heading, cells(data, rows, columns, what));
}

/** Ids in a row; a second row shows their new order. */
function tokens(ids: number[], what: Change, whole: boolean): HTMLElement {
  const order = what.order?.length === ids.length ? what.order : undefined;
  const line = (places: number[], label: string) =>
    h(
      whole ? "ol.tokens.marked" : "ol.tokens",
      { "aria-label": label },
      places.slice(0, WORDS).map((row, i) => {
        const mark = what.marked(i, ids.length);
        return h(
          mark ? "li.marked" : "li",
          { "aria-label": `${i}: ${ids[row]}${mark ? `, ${mark}` : ""}` },
          h("sub", String(row)),
          number(ids[row], 0),
        );
      }),
      places.length > WORDS && h("li.rest", `+ ${places.length - WORDS}`),
    );
  const plain = line(ids.map((_, i) => i), order ? "given" : whole ? "tokens, changed" : "tokens"); // prettier-ignore
  return order ? h("div.moved", plain, h("span.becomes", "becomes"), line(order, "moved")) : plain;
}

/** Numbers as a heat map: blue positive, orange negative, one row for each token. */
function cells(data: ArrayLike<number>, rows: number, columns: number, what: Change): HTMLElement {
  const [high, wide] = [Math.min(rows, ROWS), Math.min(columns, COLUMNS)];
  let size = 0;
  for (let i = 0; i < high; i++) for (let j = 0; j < wide; j++) size = Math.max(size, Math.abs(data[i * columns + j]));
  const row = (i: number) => {
    const mark = what.marked(i, rows);
    const cell = (j: number) => {
      const v = data[i * columns + j];
      return h(v < 0 ? "i.negative" : "i", {
        style: `--share:${((100 * Math.abs(v)) / (size || 1)).toFixed(1)}%`,
        title: number(v, 3),
      }, columns <= FEW && number(v, 2)); // prettier-ignore
    };
    return h(mark ? "div.strip.marked" : "div.strip", h("sub", String(i)), Array.from({ length: wide }, (_, j) => cell(j)), mark && h("em", mark)); // prettier-ignore
  };
  const cut = [...(rows > high ? [`${rows - high} more rows`] : []), ...(columns > wide ? [`${columns - wide} more columns`] : [])];
  return h(
    columns <= FEW ? "div.numbers.few" : "div.numbers",
    { role: "img", "aria-label": `${rows} by ${columns} numbers up to ${number(size, 3)} in size` },
    Array.from({ length: high }, (_, i) => row(i)),
    cut.length > 0 && h("p.quiet", `and ${cut.join(", ")}`),
  );
}

/** The other fields of the element. */
function rest(element: Record<string, unknown> | undefined, drawn: string[]): HTMLElement | undefined {
  const fields = Object.entries(element ?? {}).filter(([name]) => !drawn.includes(name));
  if (!fields.length) return undefined;
  return h(
    "dl.element",
    fields.flatMap(([name, value]) => [h("dt", name), h("dd", h("code", JSON.stringify(value)))]),
  );
}

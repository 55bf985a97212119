// Where the cost goes: one bar for each quantity, divided into the parts of the model. The pointer or arrow keys choose a piece: left
// and right along a bar, up and down between bars; a screen reader says its formula with the numbers of this model.
import type { CostPart } from "../../core/contract";
import { h, svg } from "../../core/dom";
import { all, brief, type Column, letters, operands, percent, total, whole } from "./formula";
import type { CostPage } from "./page";
import { chosen } from "./state";

const [BAR, HEAD, GAP, LETTER] = [40, 24, 16, 7.2]; // pixels

interface Piece {
  work: CostPart;
  value: bigint;
}

interface Bar {
  column: Column;
  title: string;
  unit: string;
  sum: bigint;
  pieces: Piece[];
}

/** Multiply-adds of a forward pass, of one more token with the cache, and parameters. */
export function bars(page: CostPage): Bar[] {
  const model = chosen(page.cost, page.state);
  const { N, B } = page.state.sizes;
  const many = B === 1 ? "" : `, ${whole(B)} sequences`;
  const bar = (column: Column, title: string, unit: string): Bar => ({
    column,
    title,
    unit,
    sum: all(page.cost, column, model),
    pieces: page.cost.parts
      .filter(({ counted }) => counted !== false || column === "parameters")
      .map((work) => ({ work, value: total(work, column, model) }))
      .filter(({ value }) => value > 0n),
  });
  return [
    bar("full_pass", `forward pass over ${whole(N)} ${N === 1 ? "token" : "tokens"}${many}`, "multiply-adds"),
    ...(model.has.includes("causal") ? [bar("decoding_step", `one more token, with the KV cache${many}`, "multiply-adds")] : []),
    bar("parameters", "learned parameters", "parameters"),
  ];
}

/** A piece in words, to show and for a screen reader. */
export function rangeText(
  page: CostPage,
  { column, unit, sum }: Bar,
  { work, value }: Piece,
): { head: string; line: string; sentence: string } {
  const model = chosen(page.cost, page.state);
  const terms = work[column] ?? [];
  const layers = work.per_layer === false ? "" : `${whole(model.sizes.L)} layers × `;
  const [formula, numbers] = [letters(terms, model), operands(terms, model)];
  const wrapped = layers ? `(${numbers})` : numbers;
  const line = `${layers ? "L × " : ""}${layers && formula.includes(" ") ? `(${formula})` : formula} = ${layers ? `${whole(model.sizes.L)} × ${numbers.includes(" + ") ? wrapped : numbers}` : numbers} = ${whole(value)}`; // prettier-ignore
  const head = `${work.name}: ${whole(value)} ${unit}, ${percent(value, sum)}`;
  return { head, line, sentence: `${head}. ${line}` };
}

export function stacked(page: CostPage): { element: HTMLElement; picture: HTMLElement; draw(): void } {
  let current: Bar[] = [];
  let at: [number, number] | undefined;
  const reading = h("div.reading", { "aria-hidden": "true" });
  const element = h("div.stack", {
    tabindex: 0,
    role: "slider",
    "aria-label": "Multiply-adds and parameters, piece by piece",
    "aria-valuemin": 0,
  });
  const legend = h("div.legend");
  const picture = h("figure", legend, element);
  const pick = (next: [number, number] | undefined) => {
    if (next?.join() === at?.join()) return;
    at = next;
    show();
  };
  const point = (event: PointerEvent) => {
    const piece = (event.target as Element).closest<SVGElement>("[data-piece]");
    if (piece) pick(piece.dataset.piece!.split(".").map(Number) as [number, number]);
  };
  element.addEventListener("pointermove", point);
  element.addEventListener("pointerdown", point);
  element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && document.activeElement !== element) pick(undefined);
  });
  element.addEventListener("blur", () => pick(undefined));
  element.addEventListener("keydown", (event) => {
    const next = stepped(event.key, at, current.map(({ pieces }) => pieces.length)); // prettier-ignore
    if (event.key === "Escape") pick(undefined);
    else if (!next) return;
    else pick(next);
    event.preventDefault();
  });
  function show(): void {
    element.replaceChildren(drawn(current, Math.max(element.clientWidth || 720, 240), at));
    const order = current.flatMap(({ pieces }, b) => pieces.map((_, p) => `${b}.${p}`));
    const found = at && rangeText(page, current[at[0]], current[at[0]].pieces[at[1]]);
    element.setAttribute("aria-valuemax", String(Math.max(order.length - 1, 0)));
    element.setAttribute("aria-valuenow", String(Math.max(order.indexOf(at?.join(".") ?? ""), 0)));
    element.setAttribute("aria-valuetext", found?.sentence ?? "no piece is chosen; arrow keys choose one");
    const about = at && current[at[0]].pieces[at[1]].work.about;
    reading.replaceChildren(...(found ? [h("p.place", h("b", found.head)), h("p.arithmetic", found.line), h("p.quiet", about ?? "")] : [h("p.quiet", "Point at a piece or use the arrow keys to see its formula with the numbers of this model.")])); // prettier-ignore
  }
  function draw(): void {
    current = bars(page);
    const names = new Set(current.flatMap(({ pieces }) => pieces.map(({ work }) => work.name)));
    const known = page.cost.parts.filter(({ name }) => names.has(name));
    legend.replaceChildren(...known.map(({ name }) => h("span.entry", { "data-work": part(name) }, h("i"), name)));
    if (at && !current[at[0]]?.pieces[at[1]]) at = undefined;
    show();
  }
  let before = 0;
  new ResizeObserver(() => {
    if (current.length && element.clientWidth !== before) show();
    before = element.clientWidth;
  }).observe(element);
  return { element: h("div", picture, reading), picture, draw };
}

/** The piece that a key leads to; undefined for other keys. counts: pieces of each bar. */
export function stepped(key: string, at: [number, number] | undefined, counts: number[]): [number, number] | undefined {
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key) || !counts.some(Boolean)) return undefined;
  if (!at) return [0, 0];
  const [bar, piece] = at;
  if (key === "ArrowUp" || key === "ArrowDown") {
    const next = (bar + (key === "ArrowDown" ? 1 : counts.length - 1)) % counts.length;
    return [next, Math.min(piece, counts[next] - 1)];
  }
  const to = { ArrowLeft: piece - 1, ArrowRight: piece + 1, Home: 0, End: counts[bar] - 1 }[key]!;
  return [bar, Math.min(Math.max(to, 0), counts[bar] - 1)];
}

function drawn(current: Bar[], width: number, at: [number, number] | undefined): SVGElement {
  const tall = HEAD + BAR + GAP;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${current.length * tall - GAP}`, width, height: current.length * tall - GAP, "aria-hidden": "true" },
    current.map(({ title, unit, sum, pieces }, b) => {
      let x = 0;
      const top = b * tall;
      return svg(
        "g",
        svg("text.titled", { x: 0, y: top + 14 }, title),
        svg("text.sum", { x: width, y: top + 14, "text-anchor": "end" }, `${brief(sum)}${width > 480 ? ` ${unit}` : ""}`),
        pieces.map(({ work, value }, p) => {
          const wide = (Number(value) / Number(sum)) * width;
          const from = x;
          x += wide;
          const lit = at ? String(at[0] === b && at[1] === p) : false;
          return svg(
            "g.piece",
            { "data-work": part(work.name), "data-piece": `${b}.${p}`, "data-lit": lit },
            svg("rect", { x: from.toFixed(2), y: top + HEAD, width: Math.max(wide - 1.5, 0.6).toFixed(2), height: BAR, rx: Math.min(4, wide / 4).toFixed(1) }), // prettier-ignore
            ...labels(work.name, percent(value, sum), from + 8, top + HEAD, wide - 14),
          );
        }),
      );
    }),
  );
}

/** A piece's name with its share below, where there is room. */
function labels(name: string, share: string, x: number, y: number, room: number): SVGElement[] {
  if (name.length * LETTER > room) return share.length * LETTER > room ? [] : [svg("text", { x, y: y + BAR / 2 + 4.5 }, share)];
  return [svg("text.name", { x, y: y + 17 }, name), svg("text", { x, y: y + 33 }, share)];
}

/** What gives a series the colour of a part. */
export const partInk = (name: string): Record<string, string> => ({ "data-work": part(name) });

/** A part's name in the style sheet. */
export const part = (name: string): string => ({ QKᵀ: "scores", AV: "mix" })[name] ?? name;

// Tokens: the measured effect of removing each one, beside a cheap score of it, and how well every score predicts the effect.
import type { Attribution, TokenScore } from "../../core/contract";
import { plot } from "../../charts/plot";
import { asPart, h, svg } from "../../core/dom";
import { number } from "../../core/format";
import { direction, named, shown, spaced, spoken, visible } from "../../core/labels";
import type { AttributionPage, Section } from "./page";

const STRONGEST = 62; // percent of colour

/** Of each token a number that is positive where the token supports the answer. */
export const drops = (record: Attribution): number[] => record.removed.map((change) => -change);

/** What the tokens are called. */
export const noun = ({ sequence, drawing }: Attribution): string =>
  drawing?.length ? "atom" : sequence.kind === "patches" ? "patch" : "token";
const plural = (record: Attribution): string => noun(record) + (noun(record) === "patch" ? "es" : "s");

/** Why some tokens are dotted; empty where none is. */
const dotted = ({ sequence, tokens }: Attribution): string =>
  tokens.length < sequence.labels.length - (sequence.kind === "patches" ? (sequence.prefix_tokens ?? 0) : 0)
    ? "; dotted: not removed, as the answer is read there or nothing from there can reach it"
    : "";

export const correlated = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : number(value, 2);

export function tokens(page: AttributionPage): Section {
  const { record } = page;
  const pick = (token: number | undefined) => page.set({ token });
  const left = field(record, "Measured: removed", pick);
  const right = field(record, "", pick);
  const status = h("p.chosen", { role: "status" });
  const chooser = h("tbody");
  const scatter = plot(`score against measured effect, a mark for each ${noun(record)}`, (mark) => {
    if (mark) pick(record.tokens[mark.mark]);
  });
  const now = (): TokenScore | undefined => record.scores[page.state.score];
  const element = asPart(
    "tokens",
    h(
      "section.part",
      h("h2", `Which ${plural(record)} decide?`),
      h(
        "p.quiet",
        `Blue: the ${noun(record)} raises the ${record.metric}; orange: it lowers it${dotted(record)}. ${record.removal}`,
      ),
      h("div.fields", left.element, right.element),
      status,
      h("h3", "How well does each score predict the measured effect?"),
      h(
        "div.scroll",
        { tabindex: 0, role: "region", "aria-label": "Scores and their rank correlation" },
        h(
          "table.scores",
          h("thead", h("tr", ["score", "rank correlation", "how it is computed"].map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
          chooser,
        ),
      ),
      h("p.quiet", `Spearman's rank correlation over ${record.tokens.length} ${plural(record)} of this one input: 1 is the same order, 0 is no relation, −1 is the opposite order. A score without a sign is compared with the size of the effect.`), // prettier-ignore
      scatter.element,
    ),
  );

  function choose(): void {
    const focused = (document.activeElement as HTMLElement | null)?.dataset.score;
    chooser.replaceChildren(
      ...record.scores.map((score, i) =>
        h(
          "tr",
          { "data-name": score.name },
          h(
            "th",
            { scope: "row" },
            h("button", { type: "button", "aria-pressed": String(i === page.state.score), "data-score": i, onclick: () => page.set({ score: i }) }, score.name), // prettier-ignore
          ),
          h("td.number", gauge(score.correlation), h("span", correlated(score.correlation))),
          h("td.quiet", score.explanation),
        ),
      ),
    );
    if (focused) chooser.querySelector<HTMLElement>(`[data-score="${focused}"]`)?.focus();
  }

  return {
    element,
    draw() {
      const [score, { token }] = [now(), page.state];
      choose();
      left.draw("Measured: removed", drops(record), token, `drop of the ${record.metric}`);
      right.draw(score?.name ?? "", score?.values ?? record.tokens.map(() => 0), token);
      status.replaceChildren(...sentence(record, token));
      if (score) {
        const effect = score.signed ? drops(record) : record.removed.map(Math.abs);
        scatter.draw({
          series: [
            {
              look: 0,
              signs: "dots",
              name: score.name,
              marks: record.tokens.map((t, i) => ({ x: score.values[i], y: effect[i], sentence: `${spoken(record.sequence, t)}: ${score.name} ${number(score.values[i], 4)}, measured ${number(effect[i], 4)}` })), // prettier-ignore
            },
          ],
          x: { title: score.name },
          y: { title: `${score.signed ? "measured drop when removed" : "size of the measured change"}: ${record.metric}` },
          height: 260,
        });
      }
    },
  };
}

/** A bar from 0 to a correlation, on a scale from −1 to 1. */
function gauge(value: number | null | undefined): HTMLElement {
  const share = value ?? 0;
  return h(
    "span.gauge",
    { "aria-hidden": "true" },
    h(share < 0 ? "i.less" : "i", { style: `left:${50 + Math.min(0, share) * 50}%;width:${Math.abs(share) * 50}%` }),
  );
}

function sentence(record: Attribution, token: number | undefined): (HTMLElement | string)[] {
  const i = token === undefined ? -1 : record.tokens.indexOf(token);
  if (token === undefined || i < 0) return [`Choose ${noun(record) === "atom" ? "an" : "a"} ${noun(record)} to read its numbers.`];
  const change = record.removed[i];
  const rest = record.scores.map(({ name, values }) => `${name} ${number(values[i], 4)}`).join("; ");
  return [named(record.sequence, token), ` removed changes the ${record.metric} by ${number(change, 4)}. Scores: ${rest}.`];
}

interface Field {
  element: HTMLElement;
  draw(title: string, values: number[], chosen: number | undefined, unit?: string): void;
}

/** Coordinates of atoms in percent of a box, and its sides. */
function projected(places: number[][]): { at: [number, number][]; width: number; height: number } {
  const [xs, ys] = [0, 1].map((axis) => places.map((place) => place[axis]));
  const [low, high] = [xs, ys].map((all) => [Math.min(...all) - 0.8, Math.max(...all) + 0.8]);
  const [width, height] = [low[1] - low[0], high[1] - high[0]];
  const at = places.map(([x, y]): [number, number] => [(100 * (x - low[0])) / width, (100 * (high[1] - y)) / height]);
  return { at, width, height };
}

const bonds = (record: Attribution, at: [number, number][]): SVGElement =>
  svg(
    "svg",
    { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
    (record.bonds ?? []).map(([a, b]) =>
      svg("line", { x1: at[a][0], y1: at[a][1], x2: at[b][0], y2: at[b][1], "vector-effect": "non-scaling-stroke" }),
    ),
  );

let fields = 0;

/** All tokens, tinted by numbers: patches on their picture, others as text. Arrow keys move. */
function field(record: Attribution, title: string, pick: (token: number) => void): Field {
  const { sequence, tokens } = record;
  const id = `field-${++fields}`;
  const grid = sequence.kind === "patches" && sequence.grid?.length === 2 ? sequence.grid : undefined;
  const own = spaced(sequence.labels);
  const heading = h("h3", title);
  const prefix = grid ? (sequence.prefix_tokens ?? 0) : 0;
  const places = record.drawing?.length ? projected(record.drawing) : undefined;
  const box = h(grid ? "div.patches" : places ? "div.atoms" : "div.text", {
    tabindex: 0,
    role: "listbox",
    dir: grid ? "ltr" : direction(sequence.labels),
    style: grid ? `grid-template-columns:repeat(${grid[1]},1fr);aspect-ratio:${grid[1]}/${grid[0]};background-image:url(${sequence.picture ?? ""})` : "", // prettier-ignore
  });
  const marks = sequence.labels.map((label, i) => {
    const tokenText = grid ? "" : own && label.trim() ? shown(label.replace(/^ /, "")) : visible(label, i);
    return h("bdi.token", { role: "option", id: `${id}-${i}`, "data-i": i }, tokenText);
  });
  if (places) {
    box.style.aspectRatio = `${places.width} / ${places.height}`;
    box.append(bonds(record, places.at));
  }
  for (const [i, mark] of marks.entries()) {
    if (i < prefix) continue;
    if (places) {
      mark.style.left = `${places.at[i][0]}%`;
      mark.style.top = `${places.at[i][1]}%`;
      box.append(mark);
      continue;
    }
    if (!grid && own && /^ \S/.test(sequence.labels[i])) box.append(" ");
    box.append(mark);
    if (!grid && !own) box.append(" ");
    if (!grid && sequence.labels[i].includes("\n")) box.append(h("br"));
  }
  const known = new Map(tokens.map((token, i) => [token, i]));
  let at: number | undefined;
  box.addEventListener("click", (event) => {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-i]")?.dataset.i;
    if (found !== undefined && known.has(Number(found))) pick(Number(found));
  });
  box.addEventListener("keydown", (event) => {
    const wide = grid?.[1] ?? 1;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide, Home: -tokens.length, End: tokens.length }[
      event.key
    ];
    if (by === undefined) return;
    const here = at === undefined ? -1 : (known.get(at) ?? -1);
    const step = box.getAttribute("dir") === "rtl" && event.key.match(/Left|Right/) ? -by : by;
    pick(tokens[Math.max(0, Math.min(tokens.length - 1, here < 0 ? 0 : here + step))]);
    event.preventDefault();
  });
  const legend = h("p.quiet");
  return {
    element: h("div.field", heading, box, legend),
    draw(name, values, chosen, unit = "") {
      heading.textContent = name;
      box.setAttribute("aria-label", name);
      at = chosen;
      const most = Math.max(...values.map(Math.abs), 1e-300);
      legend.textContent = `The strongest colour stands for ${number(most, most < 0.01 ? 5 : 3)}${unit && ` (${unit})`}.`;
      for (const [i, mark] of marks.entries()) {
        const place = known.get(i);
        const value = place === undefined ? 0 : values[place];
        mark.style.setProperty("--tint", `${((Math.abs(value) / most) * STRONGEST).toFixed(1)}%`);
        mark.classList.toggle("less", value < 0);
        mark.classList.toggle("out", place === undefined);
        mark.setAttribute("aria-selected", String(i === chosen));
        mark.setAttribute("aria-label", place === undefined ? `${spoken(sequence, i)}: not removed` : `${spoken(sequence, i)}: ${number(value, 4)}`); // prettier-ignore
      }
      if (chosen === undefined) box.removeAttribute("aria-activedescendant");
      else box.setAttribute("aria-activedescendant", `${id}-${chosen}`);
    },
  };
}

// E4: shift the words through a paragraph, under every scheme at once.
import { guarded, perState, type Run } from "../../core/desk";
import { asPart, button, h, select, slider } from "../../core/dom";
import { error } from "../../core/format";
import { alongDiagonals, relativeError } from "../../core/measure";
import { matrix } from "../../widgets/matrix";
import { whether } from "../../widgets/verdict";
import { COLOURS, numbered } from "../../core/names";
import { matrixAt, tensor } from "../../core/tensor";
import { type App, word as named } from "./app";
import { comparedSchemes, section, setting, shown, type Story, withMask } from "./story";

const MOST = 8; // words that shift
const SMALL = 1e-9; // between rounding (1e-15) and a real change
const ROLES = ["scores", "weights", "mixed"] as const;

export const slide: Story = {
  title: "Shift",
  heading: "Shift the words through a text: which scheme notices?",
  lede: "The words stay the same; only their positions change. A scheme that reads distances only gives the same scores everywhere. One that reads positions does not.",
  controls: ["scheme", "causal", "head"],
  build(app: App): HTMLElement {
    const last = app.page.max_positions - count(app);
    return h(
      "div.flow",
      asPart(
        "slider",
        h(
          "div.sliding",
          slider("position of the first word", [0, last], Math.min(app.state.slide, last), (value, step) =>
            app.set({ slide: value }, { step }),
          ),
          button("Back to 0", "Move the words to the beginning", () => app.set({ slide: 0 }, { structure: true })),
        ),
      ),
      paragraph(app),
      section("changes", "What changed since position 0", comparedSchemes(app), table(app)),
      section(
        "cards",
        "Scores and attention weights, where the words stand now",
        h(
          "div.cards",
          shown(app).map(({ name }) => card(app, name)),
        ),
        h("p.quiet", "Numbers that differ from those at position 0 are marked with ≠."),
      ),
      section("distance", "Does the score depend on the distance only?", distance(app)),
      section("whole", "The whole paragraph: equivariance, not invariance", whole(app)),
    );
  },
};

const count = (app: App): number => Math.min(app.state.words.length, MOST);
const sliding = (app: App): number[] => app.state.order.slice(0, count(app));
const start = (app: App): number => Math.min(app.state.slide, app.page.max_positions - count(app));

/** A scheme's program on the shifted words at a position. */
function standing(app: App, scheme: string, position: () => number, slot: string): () => Run {
  return perState(app, () =>
    app.lab.run(
      app.state,
      scheme,
      setting(app),
      { rows: app.lab.rows(app.state, sliding(app)), source: sliding(app), start: position() },
      slot,
    ),
  );
}

/** How much a value of a scheme has changed since position 0, relative to its size there. */
export function shiftError(app: App, scheme: string, role: string): number {
  const [now, before] = [start(app), 0].map((position) => {
    const input = { rows: app.lab.rows(app.state, sliding(app)), source: sliding(app), start: position };
    const run = app.lab.run(app.state, scheme, setting(app), input, `shifted-${position === 0}`);
    return run.program.get(run.record.roles![role]);
  });
  return relativeError(now, before);
}

function paragraph(app: App): HTMLElement {
  const text = h("p.paragraph", { "data-part": "paragraph", "aria-label": "the paragraph with the shifted words" });
  app.keep(() => {
    const [position, words] = [start(app), sliding(app)];
    const filler = app.page.paragraph.filter((w) => !app.page.words.includes(w));
    const total = Math.min(app.page.max_positions, Math.max(filler.length, position) + words.length);
    text.replaceChildren(
      ...Array.from({ length: total }, (_, i) => {
        const row = words[i - position];
        if (row === undefined) return h("span.other", filler[(i < position ? i : i - words.length) % filler.length]);
        return h("span.word.here", { "data-colour": row % COLOURS, "data-position": i }, app.state.words[row], h("sub", i));
      }).flatMap((element) => [element, " "]),
    );
  });
  return text;
}

/** How much the scores, the attention weights and the output of each scheme have changed since position 0. */
function table(app: App): HTMLElement {
  const body = h("tbody");
  const root = h("div");
  const rows = shown(app).map(({ name, title }) => {
    const runs = [standing(app, name, () => start(app), "slid"), standing(app, name, () => 0, "unmoved")];
    return { name, title, runs };
  });
  guarded(app, root, () => {
    body.replaceChildren(
      ...rows.map(
        ({ name, title, runs: [now, before] }) =>
        h("tr", { "data-scheme": name }, h("th", { scope: "row" }, title), ROLES.map((role) => cell(now(), before(), role))), // prettier-ignore
      ),
    );
  });
  root.append(
    h(
      "div.scroll",
      h(
        "table.laws",
        h("caption.spoken", "Change of each scheme since position 0"),
        h("thead", h("tr", ["scheme", "scores", "attention weights", "output"].map((name) => h("th", { scope: "col" }, name)))), // prettier-ignore
        body,
      ),
    ),
  );
  return root;
}

function cell(now: Run, before: Run, role: (typeof ROLES)[number]): HTMLElement {
  const id = now.record.roles![role];
  const change = relativeError(now.program.get(id), before.program.get(id));
  const holds = change < SMALL;
  return h(
    "td",
    { "data-role": role, "data-error": change, "data-verdict": holds ? "holds" : "broken" },
    whether(holds),
    ` ${change === 0 ? "no change" : error(change)}`,
  );
}

/** The scores and the attention weights of a scheme, where the words stand now. */
function card(app: App, scheme: string): HTMLElement {
  const variant = app.page.schemes.find((s) => s.name === scheme)!;
  const now = standing(app, scheme, () => start(app), "slid");
  const before = standing(app, scheme, () => 0, "unmoved");
  const compared = (id: string) => ({ names, expected: () => before().program.get(id) });
  const names = () => sliding(app).map((row) => named(app, row));
  const { scores, weights } = now().record.roles!;
  return h(
    "div.card",
    { "data-scheme": scheme, "data-part": `scheme-${scheme}` },
    h("h3", variant.title, h("span.quiet", variant.group)),
    h("p.quiet", variant.summary),
    matrix(app, now, scores, compared(scores)),
    matrix(app, now, weights, compared(weights)),
  );
}

function distance(app: App): HTMLElement {
  const size = 12;
  const scheme = app.state.scheme;
  const repeated = perState(app, () => {
    const word = app.lab.rows(app.state, [app.state.order[0]]);
    const rows = tensor([size, word.data.length], Array.from({ length: size }, () => [...word.data]).flat());
    return app.lab.run(app.state, scheme, setting(app), { rows, start: start(app) }, "repeated");
  });
  const line = h("p", { role: "status" });
  const root = h("div");
  guarded(app, root, () => {
    const scores = repeated().program.get(repeated().record.roles!.scores);
    const varies = alongDiagonals(matrixAt(scores, scores.shape.length > 2 ? [app.state.head] : []));
    const holds = varies < SMALL;
    line.dataset.error = String(varies);
    line.replaceChildren(
      `“${app.state.words[app.state.order[0]]}” at ${size} consecutive positions. Along the diagonals (same i − j) the scores vary by `,
      h("b", error(varies)),
      holds ? ": they depend on the distance only." : ": they depend on the positions themselves.",
    );
  });
  const base = app.page.schemes.find((s) => s.name === scheme)!.switch || scheme;
  const switches = app.page.schemes.filter((s) => s.switch === base);
  root.append(
    h(
      "div.controls",
      select("scheme", app.page.schemes, scheme, (value) => app.set({ scheme: value }, { structure: true })),
      switches.map((s) =>
        h(
          "label.choice",
          h("input", {
            type: "checkbox",
            "data-switch": s.name,
            checked: s.name === scheme,
            onchange: () => app.set({ scheme: s.name === scheme ? base : s.name }, { structure: true }),
          }),
          h("span", s.title),
        ),
      ),
    ),
    line,
    matrix(app, repeated, repeated().record.roles!.scores, {
      caption: "one word at twelve positions: row i is the query, column j the key",
      names: () => numbered(Array.from({ length: size }, (_, i) => start(app) + i)),
    }),
  );
  return root;
}

/** All positions of a paragraph as rows; empty ones are masked as padding. */
function whole(app: App): HTMLElement {
  const scheme = app.state.scheme;
  const rows = 24;
  const position = () => Math.min(start(app), rows - count(app));
  const filled = (at: number): Run => {
    const [words, width] = [app.lab.rows(app.state, sliding(app)), app.page.width];
    const data = new Float64Array(rows * width);
    data.set(words.data, at * width);
    const valid = Array.from({ length: rows }, (_, i) => i >= at && i < at + count(app));
    return app.lab.run(
      app.state,
      scheme,
      withMask(app, "padded"),
      { rows: tensor([rows, width], data), start: 0, valid },
      at === 0 ? "paragraph-0" : "paragraph",
    );
  };
  const now = perState(app, () => filled(position()));
  const line = h("p", { role: "status" });
  const root = h("div.whole");
  guarded(app, root, () => {
    const [here, first] = [part(now(), position()), part(filled(0), 0)];
    const e = relativeError(here, first);
    line.dataset.error = String(e);
    line.replaceChildren(
      `The output rows of the words at position ${position()} and at position 0 differ by `,
      h("b", error(e)),
      e < SMALL ? ": they move unchanged." : ": this scheme is not invariant to the shift.",
    );
  });
  const names = () =>
    numbered(Array.from({ length: rows }, (_, i) => i)).map((name, i) =>
      i >= position() && i < position() + count(app) ? named(app, sliding(app)[i - position()]) : name,
    );
  root.append(
    h(
      "p",
      "A row for each position of the paragraph. The rows of the words move down with the words. Where their numbers stay the same, the layer is equivariant to the shift. Without their positions, the same rows look invariant.",
    ),
    line,
    h(
      "div.row",
      framed(
        matrix(app, now, now().record.roles!.words, {
          caption: "a paragraph of 24 positions; padding rows are queries, but masked as keys",
          names,
        }),
      ),
      framed(matrix(app, now, now().record.roles!.mixed, { caption: "weighted sum of the values, every row", names })),
    ),
  );
  return root;

  function part(run: Run, from: number) {
    const full = run.program.get(run.record.roles!.mixed);
    const wide = full.shape.at(-1)!;
    const lead = full.shape.length > 2 ? [app.state.head] : [];
    const flat = matrixAt(full, lead);
    return tensor([count(app), wide], flat.data.slice(from * wide, (from + count(app)) * wide));
  }
}

const framed = (figure: HTMLElement): HTMLElement => h("div.tall", figure);

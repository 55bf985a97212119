// E4: slide the words through a paragraph, under every scheme at once.
import { type App, guarded, perState } from "../app";
import { button, h, select, slider } from "../dom";
import { error } from "../format";
import type { Run } from "../lab";
import { alongDiagonals, relativeError } from "../measure";
import { matrix } from "../marks/matrix";
import { COLOURS, numbered, word as named } from "../names";
import { matrixAt, tensor } from "../tensor";
import { section, setting, type Story, withMask } from "./story";

const MOST = 8; // words that slide
const SMALL = 1e-9; // between rounding (1e-15) and anything a person would call a change
const ROLES = ["scores", "weights", "mixed"] as const;

export const slide: Story = {
  title: "Slide",
  lede: "Move the words through a paragraph. They stay the same words; only their places change. Which scheme notices?",
  controls: ["scheme", "causal", "head"],
  build(app: App): HTMLElement {
    const last = app.page.places - count(app);
    const cards = h(
      "div.cards",
      app.page.schemes.map((scheme) => card(app, scheme.name)),
    );
    return h(
      "div.flow",
      h(
        "div.sliding",
        slider("first word stands at place", [0, last], Math.min(app.state.slide, last), (value, undoable) =>
          app.set({ slide: value }, { undoable }),
        ),
        button("Back to 0", "Put the words at the beginning", () => app.set({ slide: 0 }, { structure: true })),
      ),
      paragraph(app),
      section(
        "What changed since place 0",
        h(
          "p",
          "For each scheme: the scores now, and how much scores, attention and result have changed since the words stood at place 0.",
        ),
        cards,
      ),
      section("Does the score depend on the distance only?", distance(app)),
      section("The whole paragraph: why it looks like invariance", whole(app)),
    );
  },
};

const count = (app: App): number => Math.min(app.state.words.length, MOST);
const sliding = (app: App): number[] => app.state.order.slice(0, count(app));
const start = (app: App): number => Math.min(app.state.slide, app.page.places - count(app));

/** A scheme's program on the sliding words at a place. */
function standing(app: App, scheme: string, place: () => number, slot: string): () => Run {
  return perState(app, () =>
    app.lab.run(
      app.state,
      scheme,
      setting(app),
      { rows: app.lab.rows(app.state, sliding(app)), source: sliding(app), start: place() },
      slot,
    ),
  );
}

function paragraph(app: App): HTMLElement {
  const text = h("p.paragraph", { "aria-label": "the paragraph, with the sliding words in it" });
  app.keep(() => {
    const [place, words] = [start(app), sliding(app)];
    const filler = app.page.paragraph.filter((w) => !app.page.words.includes(w));
    const total = Math.min(app.page.places, Math.max(filler.length, place) + words.length);
    text.replaceChildren(
      ...Array.from({ length: total }, (_, i) => {
        const row = words[i - place];
        if (row === undefined) return h("span.other", filler[(i < place ? i : i - words.length) % filler.length]);
        return h("span.word.here", { "data-colour": row % COLOURS, "data-place": i }, app.state.words[row], h("sub", i));
      }).flatMap((element) => [element, " "]),
    );
  });
  return text;
}

function card(app: App, scheme: string): HTMLElement {
  const variant = app.page.schemes.find((s) => s.name === scheme)!;
  const now = standing(app, scheme, () => start(app), "slid");
  const before = standing(app, scheme, () => 0, "unmoved");
  const list = h("dl.changes");
  const root = h(
    "div.card",
    { "data-scheme": scheme },
    h("h4", variant.title, h("span.quiet", variant.group)),
    h("p.quiet", variant.summary),
  );
  guarded(app, root, () => {
    const found = ROLES.map((role) => {
      const id = now().record.roles![role];
      return [role, relativeError(now().program.get(id), before().program.get(id))] as const;
    });
    root.dataset.holds = String(found.every(([, e]) => e < SMALL));
    list.replaceChildren(
      ...found.flatMap(([role, e]) => [
        h("dt", role === "mixed" ? "result" : role),
        h("dd", { "data-role": role, "data-error": e, class: e < SMALL ? "holds" : "broken" }, e === 0 ? "no change" : error(e)),
      ]),
    );
  });
  const names = () => sliding(app).map((row) => named(app, row));
  const { scores, weights } = now().record.roles!;
  root.append(list, matrix(app, now, scores, { names, compact: true }), matrix(app, now, weights, { names, compact: true }));
  return root;
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
      `“${app.state.words[app.state.order[0]]}” stands at ${size} places in a row. Along the diagonals (same i − j) the scores vary by `,
      h("b", error(varies)),
      holds ? ": they depend on the distance only." : ": they depend on the places themselves.",
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
      caption: "one word at twelve places: row i asks, column j answers",
      names: () => numbered(Array.from({ length: size }, (_, i) => start(app) + i)),
    }),
  );
  return root;
}

/** All places of a paragraph as rows; the empty ones are hidden from attention, as padding is. */
function whole(app: App): HTMLElement {
  const scheme = app.state.scheme;
  const rows = 24;
  const place = () => Math.min(start(app), rows - count(app));
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
  const now = perState(app, () => filled(place()));
  const line = h("p", { role: "status" });
  const root = h("div.whole");
  guarded(app, root, () => {
    const [here, first] = [part(now(), place()), part(filled(0), 0)];
    const e = relativeError(here, first);
    line.dataset.error = String(e);
    line.replaceChildren(
      `The words' own output rows, here at place ${place()} and at place 0: they differ by `,
      h("b", error(e)),
      e < SMALL ? ": they travel unchanged." : ": this scheme notices where the words stand.",
    );
  });
  const names = () =>
    numbered(Array.from({ length: rows }, (_, i) => i)).map((name, i) =>
      i >= place() && i < place() + count(app) ? named(app, sliding(app)[i - place()]) : name,
    );
  root.append(
    h(
      "p",
      "Seen with all its rows, the output moves: its filled rows travel with the words. Where they do so unchanged, that is equivariance; the cards above show only the rows of the words, where it looks like invariance.",
    ),
    line,
    h(
      "div.row",
      framed(
        matrix(app, now, now().record.roles!.words, {
          caption: "a paragraph of 24 places; empty ones may ask, but nobody asks them",
          names,
        }),
      ),
      framed(matrix(app, now, now().record.roles!.mixed, { caption: "mix of the values, every row", names })),
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

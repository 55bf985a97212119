// E3: two position schemes on the same input: what each adds, and which symmetries it breaks.
import { permute, reverse, shift } from "../../core/actions";
import { guarded, perState } from "../../core/desk";
import { asPart, button, grouped, h, select } from "../../core/dom";
import { error } from "../../core/format";
import { equivariance } from "../../core/measure";
import { circles } from "../../widgets/circles";
import { matrix } from "../../widgets/matrix";
import { strip } from "../../widgets/strip";
import { claim, judged, verdict } from "../../widgets/verdict";
import type { App } from "./app";
import {
  added,
  additions,
  comparedSchemes,
  EQUIVARIANCE,
  inOrder,
  order,
  running,
  section,
  setting,
  shown,
  shuffleError,
  type Story,
} from "./story";

const RETURNS = "what the layer returns";
const SPLIT: [string, string][] = [
  ["split-cc", "word → word"],
  ["split-cp", "word → position"],
  ["split-pc", "position → word"],
  ["split-pp", "position → position"],
];

export const positions: Story = {
  title: "Positions",
  heading: "Which position scheme notices the order of the words?",
  lede: "A position scheme tells attention where each word stands. The table shows what each scheme breaks: permute the words, shift the text, or reverse it. Below, two schemes stand side by side on the same words.",
  controls: ["causal", "head"],
  build(app: App): HTMLElement {
    return h(
      "div.flow",
      asPart("examples", examples(app)),
      strip(app),
      section(
        "laws",
        "Which symmetries hold",
        comparedSchemes(app),
        table(app),
        h(
          "p.quiet",
          "Measured on this input in float64. The verdict follows from how the error shrinks with the precision. “Claimed” is what follows from the parts of the layer.",
        ),
      ),
      asPart("columns", h("div.pair", column(app, "scheme"), column(app, "versus"))),
      ...split(app),
      section("means", "The same words, another sentence: whether mean pooling distinguishes them", reading(app)),
    );
  },
};

function examples(app: App): HTMLElement {
  return h(
    "div.buttons",
    { "data-part": "examples" },
    h("span.quiet", "Examples: "),
    app.page.examples.map((example) =>
      button(
        example.name,
        example.note || "Use these words",
        () =>
          app.set(
            {
              words: example.words,
              order: example.order?.length ? example.order : example.words.map((_, i) => i),
              edits: without(app.state.edits, "words"),
            },
            { structure: true },
          ),
        { "data-example": example.name },
      ),
    ),
  );
}

export const without = (edits: App["state"]["edits"], key: string): App["state"]["edits"] =>
  Object.fromEntries(Object.entries(edits).filter(([k]) => k !== key));

function column(app: App, which: "scheme" | "versus"): HTMLElement {
  const name = app.state[which];
  const variant = app.page.schemes.find((s) => s.name === name)!;
  const run = running(
    app,
    () => name,
    () => 0,
    () => setting(app),
    which,
  );
  const roles = run().record.roles!;
  const brought = additions(run());
  const choose = select("scheme", app.page.schemes, name, (value) => app.set({ [which]: value }, { structure: true }));
  const measured = h("div.measured", { "data-part": "verdict" });
  guarded(app, measured, () => {
    measured.querySelector(".inner")?.remove();
    measured.prepend(
      h(
        "div.inner",
        verdict(EQUIVARIANCE, shuffleError(app, name, "output")),
        claim(run().record.claims.find((c) => c.action === "permute")),
      ),
    );
  });
  return h(
    "section.part.scheme",
    { "data-column": which },
    h("h2", choose),
    h("p", variant.summary),
    measured,
    brought.length
      ? h("div", h("h3", "What it makes of the positions"), added(app, run, brought))
      : h("p.quiet", "It adds nothing: there are only the words."),
    h(
      "div",
      { "data-part": "result" },
      h("h3", "Scores, attention and result"),
      h(
        "div.row",
        asPart("scores", matrix(app, run, roles.scores)),
        asPart("weights", matrix(app, run, roles.weights)),
        asPart("output", matrix(app, run, roles.output, { caption: RETURNS })),
      ),
      asPart("circles", circles(app, run, roles.weights)),
    ),
  );
}

/** The scores of an encoding that is added, term by term; nothing for other schemes. */
function split(app: App): HTMLElement[] {
  return [...new Set([app.state.scheme, app.state.versus])].flatMap((name) => {
    const run = running(
      app,
      () => name,
      () => 0,
      () => setting(app),
      "split",
    );
    const roles = run().record.roles!;
    if (!roles["split-cc"]) return [];
    const title = app.page.schemes.find((s) => s.name === name)!.title;
    return section(
      "split",
      `The score as a sum of four terms: ${title}`,
      h(
        "div.row",
        SPLIT.map(([role, caption]) => matrix(app, run, roles[role], { caption })),
      ),
    );
  });
}

function table(app: App): HTMLElement {
  const body = h("tbody");
  const root = h(
    "div.scroll",
    h(
      "table.laws",
      h(
        "thead",
        h(
          "tr",
          ["scheme", "permute", "shift", "reverse"].map((t) => h("th", { scope: "col" }, t)),
        ),
      ),
      body,
    ),
  );
  let round = 0;
  app.keep(() => {
    const mine = ++round; // a later change ends this round
    const chosen = shown(app);
    const rows = chosen.map(({ name, title }) => ({
      name,
      row: h("tr", { "data-scheme": name }, h("th", { scope: "row" }, title)),
    }));
    const lines = [...grouped(chosen)].flatMap(([group, schemes]) => [
      ...(group ? [h("tr.group", h("th", { colspan: 4, scope: "rowgroup" }, group))] : []),
      ...schemes.map(({ name }) => rows.find((r) => r.name === name)!.row),
    ]);
    const fill = (i: number) => {
      if (mine !== round || i === rows.length) return;
      rows[i].row.append(...measured(app, rows[i].name));
      if (!i) body.replaceChildren(...lines);
      setTimeout(fill, 0, i + 1); // one scheme at a time, so that a long sentence does not block the page
    };
    setTimeout(fill, 60, 0);
  });
  return root;
}

/** One scheme under the three actions: the measurement and the claim. */
function measured(app: App, scheme: string): HTMLElement[] {
  const run = inOrder(app, scheme, setting(app), "table");
  return [permute(order(app)), shift(7), reverse()].map((action) => {
    const claimed = run.record.claims.find((c) => c.action === action.name)?.holds;
    try {
      const found = equivariance(run.record.program, run.leaves, action, run.record.roles!.output);
      return h(
        "td",
        { "data-action": action.name, "data-verdict": found.verdict },
        judged(found.verdict),
        ` ${error(found.error)}`,
        claimed && h("span.quiet", " claimed"),
      );
    } catch (failure) {
      return h("td.failed", { "data-action": action.name, title: (failure as Error).message }, "error");
    }
  });
}

function reading(app: App): HTMLElement {
  const sentence = (rows: number[]) => rows.map((row) => app.state.words[row]).join(" ");
  const title = h("p");
  app.keep(() => {
    title.textContent = `“${sentence(app.state.order.map((_, i) => i))}” and “${sentence(order(app))}”`;
  });
  return h(
    "div",
    title,
    [app.state.scheme, app.state.versus].map((scheme) => means(app, scheme)),
  );
}

/** Mean pooling of the two sentences under one scheme, and their distance. */
function means(app: App, scheme: string): HTMLElement {
  const root = h("div", { "data-mean": scheme }, h("h3", app.page.schemes.find((s) => s.name === scheme)!.title));
  const other = perState(app, () =>
    app.lab.run(app.state, scheme, setting(app), { rows: app.lab.rows(app.state, order(app)), start: 0 }, "other"),
  );
  const one = perState(app, () => inOrder(app, scheme, setting(app), "one"));
  guarded(app, root, () => {
    root.querySelector(".verdict")?.remove();
    root.querySelector("h3")!.after(verdict("‖mean(one) − mean(other)‖ / ‖mean(one)‖", shuffleError(app, scheme, "mean")));
  });
  root.append(
    h(
      "div.row",
      matrix(app, one, one().record.roles!.mean, { caption: "mean of the first sentence" }),
      matrix(app, other, other().record.roles!.mean, { caption: "mean of the second sentence" }),
    ),
  );
  return root;
}

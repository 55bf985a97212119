// E5: sinusoids as clocks: which positions one, two and many hands distinguish, and the rotation from one position to another.
import { guarded, perState, type Run } from "../../core/desk";
import type { ProgramRecord } from "../../core/contract";
import { h, select, slider } from "../../core/dom";
import { error, number, scientific } from "../../core/format";
import { clocks as dials, plane } from "../../widgets/clock";
import { matrix } from "../../widgets/matrix";
import { spark } from "../../charts/spark";
import { distinctRows } from "../../core/measure";
import { COLOURS, numbered } from "../../core/names";
import { Program } from "../../core/program";
import { tensor, type Tensor } from "../../core/tensor";
import type { App } from "./app";
import type { State } from "./state";
import { running, section, type Story } from "./story";

const KINDS = [
  { name: "ladder", title: "many hands: sine and cosine at each speed" },
  { name: "pair", title: "one hand: sine and cosine, period 36" },
  { name: "sine", title: "one sine alone, period 36" },
];
const TURN = 36;

export const clocks: Story = {
  title: "Clocks",
  heading: "Sinusoids as clocks: one hand for each frequency",
  lede: "Every pair of features is a clock hand that rotates at its own frequency. All hands together encode the position.",
  controls: [],
  build(app: App): HTMLElement {
    const position = () => app.state.position;
    return h(
      "div.flow",
      h(
        "div.sliding",
        { "data-part": "slider" },
        slider("position", [0, 400], position(), (value, step) => app.set({ position: value }, { step })),
        select("hands", KINDS, app.state.waves, (value) => app.set({ waves: value as State["waves"] }, { structure: true })),
      ),
      section(
        "hands",
        "The hands at this position",
        hands(app),
        h(
          "p.quiet",
          "The hands are defined at any position, also beyond the training length. That does not mean that a model has learned to use them there.",
        ),
      ),
      section("distinguish", "Which positions one sine, one hand and many hands distinguish", apart(app)),
      section("encodings", "The encodings of 48 positions, and their dot products", ladder(app)),
      section("rotation", "One rotation shifts every position", carry(app)),
      section("plane", "In the plane: each word is a point, moved on its circle", flat(app)),
    );
  },
};

/** A running program of the tour; its leaves may be replaced by kind or symbol. */
function touring(app: App, name: string, changes: () => Record<string, Tensor>): () => Run {
  const programRecord: ProgramRecord = app.page.tour[name];
  const given = new Map(programRecord.leaves.map((leaf) => [leaf.id, app.lab.pool.get(leaf.pool ?? "") ?? app.lab.unpack(leaf)]));
  const program = new Program(programRecord, given);
  const run: Run = {
    record: { scheme: name, setting: "tour", program: programRecord, claims: [], roles: {} },
    program,
    leaves: given,
  };
  return perState(app, () => {
    for (const leaf of programRecord.leaves) {
      const change = changes()[leaf.symbol] ?? changes()[leaf.kind];
      if (change) program.change([[leaf.id, change]]);
    }
    return run;
  });
}

/** The id of a named output of a program of the tour. */
const id = (run: Run, name: string): string => run.record.program.named![name];

const positions = (from: number, count: number): Tensor =>
  tensor(
    [count, 1],
    Array.from({ length: count }, (_, i) => from + i),
  );

function hands(app: App): HTMLElement {
  const run = touring(app, app.state.waves, () => ({ coordinate: positions(app.state.position, 1) }));
  const root = h("div.scroll");
  const norm = h("p");
  guarded(app, root, () => {
    const { leaves, steps } = run().record.program;
    const angles = run().program.get(steps.find(({ op }) => op === "sinusoid")!.inputs[0]);
    const [product] = run().program.get(id(run(), "products")).data;
    const speeds = run().program.get(leaves.find(({ kind }) => kind === "constant")!.id);
    const shown = Array.from(angles.data, (angle, i) => ({ angle, speed: speeds.data[i] }));
    root.querySelector("svg")?.remove();
    root.prepend(dials(shown, app.state.position));
    root.dataset.angles = Array.from(angles.data).join();
    root.dataset.product = String(product);
    norm.replaceChildren(
      "The dot product of this encoding with itself (sin² + cos² of every hand): ",
      h("b", number(product, 6)),
      app.state.waves === "sine"
        ? ". It changes with the position: a sine without its cosine."
        : `, one for each of ${angles.data.length} hands, at every position. So all encodings have the same norm, √${angles.data.length}.`,
    );
  });
  return h(
    "div",
    root,
    h(
      "div.row",
      matrix(app, run, id(run(), "encoding"), {
        caption: "the encoding: sine, cosine, sine, cosine, …",
        names: () => numbered([app.state.position]),
      }),
    ),
    norm,
  );
}

function apart(app: App): HTMLElement {
  const rows = KINDS.map(({ name, title }) => {
    const run = touring(app, name, () => ({ coordinate: positions(0, TURN + 1) }));
    const encoding = run().program.get(id(run(), "encoding"));
    const one = distinctRows({ shape: [TURN, encoding.shape[1]], data: encoding.data });
    const more = distinctRows(encoding);
    const clash = one.collision ?? more.collision;
    return h(
      "tr",
      { "data-waves": name },
      h("th", { scope: "row" }, title),
      h("td", { "data-distinct": one.count }, `${one.count} of ${TURN}`),
      h("td", clash ? `${clash[0]} and ${clash[1]}` : "none"),
    );
  });
  const facts = app.page.facts.map((fact) =>
    h(
      "li",
      { "data-fact": fact.name, "data-value": fact.value },
      `${fact.text} `,
      h("b", error(fact.value)),
      h("span.quiet", ` relative error (${fact.source})`),
    ),
  );
  return h(
    "div",
    h(
      "div.scroll",
      h(
        "table.laws",
        h(
          "thead",
          h(
            "tr",
            ["hands", "distinct encodings among positions 0 to 35", "the first two equal encodings, up to position 36"].map((t) =>
              h("th", { scope: "col" }, t),
            ),
          ),
        ),
        h("tbody", rows),
      ),
    ),
    h("p", "Why sine and cosine come in pairs: only together can one linear map shift every position by the same step."),
    h("ul", facts),
  );
}

function ladder(app: App): HTMLElement {
  const run = touring(app, app.state.waves, () => ({}));
  const products = id(run(), "products");
  const all = () => numbered(Array.from({ length: run().program.get(products).shape[0] }, (_, i) => i));
  const curve = h("div.scroll");
  const norms = h("p");
  guarded(app, curve, () => {
    const table = run().program.get(products);
    const n = table.shape[0];
    const row = Math.min(app.state.position, n - 1);
    const from = Array.from({ length: n }, (_, j) => table.data[row * n + j]);
    curve.querySelector("svg")?.remove();
    curve.prepend(spark(from, `dot product of position ${row} with position j`, row));
    const own = Array.from({ length: n }, (_, i) => table.data[i * n + i]);
    const [least, most] = [Math.min(...own), Math.max(...own)].map((product) => product.toFixed(6));
    norms.textContent =
      least === most
        ? `On the diagonal every product is ${least}: all rows have the same norm.`
        : `On the diagonal the products lie between ${least} and ${most}: the norms of the rows differ.`;
  });
  return h(
    "div.row",
    h("div.tall", matrix(app, run, id(run(), "encoding"), { caption: "one row for each position", names: all })),
    h("div", matrix(app, run, products, { caption: "products: equal along diagonals", names: all }), curve, norms),
  );
}

function carry(app: App): HTMLElement {
  const run = touring(app, "carry", () => ({ k: tensor([1, 1], [app.state.step]) }));
  const difference = id(run(), "difference");
  const line = h("p", { role: "status" });
  const root = h("div");
  const from = { names: () => numbered([10, 30]) };
  const to = { names: () => numbered([10 + app.state.step, 30 + app.state.step]) };
  guarded(app, root, () => {
    const off = Math.max(...run().program.get(difference).data.map(Math.abs));
    line.dataset.error = String(off);
    line.replaceChildren(
      `The rotation R for k = ${app.state.step} maps position 10 to position ${10 + app.state.step}, and the same R maps position 30 to position ${30 + app.state.step}. Largest error: `,
      h("b", scientific(off)),
      ".",
    );
  });
  root.append(
    h(
      "div.sliding",
      slider("steps k", [0, 40], app.state.step, (value, step) => app.set({ step: value }, { step })),
    ),
    line,
    h(
      "div.row",
      matrix(app, run, id(run(), "encoding"), { caption: "positions 10 and 30", ...from }),
      matrix(app, run, id(run(), "rotation"), { caption: "the rotation: a 2 × 2 block for every hand" }),
      matrix(app, run, id(run(), "rotated"), { caption: "rotated", ...to }),
      matrix(app, run, id(run(), "shifted"), { caption: "the encodings k steps later", ...to }),
    ),
  );
  return root;
}

/** Whether a scheme adds sinusoids to the words. */
const isSinusoidal = ({ roles, program: programRecord }: Run["record"]): boolean =>
  !!roles?.encoding && programRecord.steps.some(({ op }) => op === "sinusoid");

function flat(app: App): HTMLElement {
  const scheme = app.page.schemes.find((s) => isSinusoidal(app.lab.record(s.name, "plain"))) ?? app.page.schemes[0];
  const run = running(
    app,
    () => scheme.name,
    () => app.state.position,
    () => "plain",
    "plane",
  );
  const root = h("div.scroll");
  guarded(app, root, () => {
    const { roles } = run().record;
    if (!roles?.encoding) throw new Error("No scheme on this page adds an encoding to the words.");
    const [x, p] = [app.lab.rows(app.state), run().program.get(roles.encoding)];
    const width = app.page.width;
    root.querySelector("svg")?.remove();
    root.prepend(
      plane(
        app.state.order.slice(0, 12).map((row, i) => ({
          text: `${app.state.words[row]}, ${app.state.position + i}`,
          colour: row % COLOURS,
          from: [x.data[i * width], x.data[i * width + 1] ?? 0],
          by: [p.data[i * width], p.data[i * width + 1] ?? 0],
        })),
      ),
    );
  });
  return h(
    "div",
    h(
      "p",
      "The first two features of every word (small dot), and where its position moves it (large dot, with the position). Each step rotates the line by the same angle: a word stays on one circle.",
    ),
    root,
  );
}

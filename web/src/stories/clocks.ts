// E5: sinusoids as clocks: what one, two and many hands tell apart, and the rotation that carries one place to another.
import { type App, guarded, perState } from "../app";
import type { ProgramRecord } from "../contract";
import { h, select, slider } from "../dom";
import { error, number, scientific } from "../format";
import type { Run } from "../lab";
import { clocks as dials, plane } from "../marks/clock";
import { matrix } from "../marks/matrix";
import { plot } from "../marks/plot";
import { distinctRows } from "../measure";
import { COLOURS, numbered } from "../names";
import { Program } from "../program";
import { tensor, type Tensor } from "../tensor";
import { running, section, type Story } from "./story";

const KINDS = [
  { name: "ladder", title: "many hands: sine and cosine at each speed" },
  { name: "pair", title: "one hand: sine and cosine, period 36" },
  { name: "sine", title: "one sine alone, period 36" },
];
const TURN = 36;

export const clocks: Story = {
  title: "Clocks",
  lede: "Every pair of features is a clock hand that turns at its own speed. A place is what all hands show together.",
  controls: [],
  build(app: App): HTMLElement {
    const place = () => app.state.place;
    return h(
      "div.flow",
      h(
        "div.sliding",
        slider("place", [0, 400], place(), (value, undoable) => app.set({ place: value }, { undoable })),
        select("hands", KINDS, app.state.waves, (value) => app.set({ waves: value }, { structure: true })),
      ),
      section(
        "The hands at this place",
        hands(app),
        h(
          "p.quiet",
          "The hands run on past any length that a model was trained at: that is how they are defined, not something a model has learned to use.",
        ),
      ),
      section("What one sine, one hand and many hands tell apart", apart(app)),
      section("The encodings of 48 places, and their products", ladder(app)),
      section("One rotation carries every place", carry(app)),
      section("In the plane: each word a point, moved on its circle", flat(app)),
    );
  },
};

/** A program of the tour at work; its leaves may be replaced by kind or symbol. */
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

/** What a program of the tour returns by this name. */
const id = (run: Run, name: string): string => run.record.program.named![name];

const places = (from: number, count: number): Tensor =>
  tensor(
    [count, 1],
    Array.from({ length: count }, (_, i) => from + i),
  );

function hands(app: App): HTMLElement {
  const run = touring(app, app.state.waves, () => ({ coordinate: places(app.state.place, 1) }));
  const root = h("div.scroll");
  const norm = h("p");
  guarded(app, root, () => {
    const { leaves, steps } = run().record.program;
    const angles = run().program.get(steps.find(({ op }) => op === "sinusoid")!.inputs[0]);
    const [product] = run().program.get(id(run(), "products")).data;
    const speeds = run().program.get(leaves.find(({ kind }) => kind === "constant")!.id);
    const shown = Array.from(angles.data, (angle, i) => ({ angle, speed: speeds.data[i] }));
    root.querySelector("svg")?.remove();
    root.prepend(dials(shown, app.state.place));
    root.dataset.angles = Array.from(angles.data).join();
    root.dataset.product = String(product);
    norm.replaceChildren(
      "This encoding times itself (sin² + cos² of every hand): ",
      h("b", number(product, 6)),
      app.state.waves === "sine"
        ? ". It changes from place to place: a sine without its cosine."
        : `, one for each of ${angles.data.length} hands, at every place. So all encodings have the same length, √${angles.data.length}.`,
    );
  });
  return h(
    "div",
    root,
    h(
      "div.row",
      matrix(app, run, id(run(), "encoding"), {
        caption: "the encoding: sine, cosine, sine, cosine, …",
        names: () => numbered([app.state.place]),
      }),
    ),
    norm,
  );
}

function apart(app: App): HTMLElement {
  const rows = KINDS.map(({ name, title }) => {
    const run = touring(app, name, () => ({ coordinate: places(0, TURN + 1) }));
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
            ["hands", "different ones among places 0 to 35", "the first that look the same, up to place 36"].map((t) =>
              h("th", { scope: "col" }, t),
            ),
          ),
        ),
        h("tbody", rows),
      ),
    ),
    h("p", "Why sine and cosine come in pairs: only together can one linear map move every place by the same step."),
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
    const row = Math.min(app.state.place, n - 1);
    const from = Array.from({ length: n }, (_, j) => table.data[row * n + j]);
    curve.querySelector("svg")?.remove();
    curve.prepend(
      plot(
        [{ text: `product of place ${row} with every place`, colour: 0, values: from }],
        0,
        `place j, against place ${row}`,
        row,
      ),
    );
    const own = Array.from({ length: n }, (_, i) => table.data[i * n + i]);
    const [least, most] = [Math.min(...own), Math.max(...own)].map((product) => product.toFixed(6));
    norms.textContent =
      least === most
        ? `On the diagonal every product is ${least}: all rows have one length.`
        : `On the diagonal the products lie between ${least} and ${most}: the rows have different lengths.`;
  });
  return h(
    "div.row",
    h("div.tall", matrix(app, run, id(run(), "encoding"), { caption: "one row a place", names: all })),
    h("div", matrix(app, run, products, { caption: "products: equal along diagonals", names: all }), curve, norms),
  );
}

function carry(app: App): HTMLElement {
  const run = touring(app, "carry", () => ({ k: tensor([1, 1], [app.state.step]) }));
  const left = id(run(), "left");
  const line = h("p", { role: "status" });
  const root = h("div");
  const from = { names: () => numbered([10, 30]) };
  const to = { names: () => numbered([10 + app.state.step, 30 + app.state.step]) };
  guarded(app, root, () => {
    const off = Math.max(...run().program.get(left).data.map(Math.abs));
    line.dataset.error = String(off);
    line.replaceChildren(
      `The rotation R for k = ${app.state.step} carries place 10 to place ${10 + app.state.step}, and the same R carries place 30 to place ${30 + app.state.step}. What is left: `,
      h("b", scientific(off)),
      ".",
    );
  });
  root.append(
    h(
      "div.sliding",
      slider("steps k", [0, 40], app.state.step, (value, undoable) => app.set({ step: value }, { undoable })),
    ),
    line,
    h(
      "div.row",
      matrix(app, run, id(run(), "encoding"), { caption: "places 10 and 30", ...from }),
      matrix(app, run, id(run(), "turn"), { caption: "the rotation: a small one for every hand" }),
      matrix(app, run, id(run(), "carried"), { caption: "carried", ...to }),
      matrix(app, run, id(run(), "there"), { caption: "the real places k steps on", ...to }),
    ),
  );
  return root;
}

/** Whether a scheme adds the hands of clocks to the words. */
const turns = ({ roles, program: programRecord }: Run["record"]): boolean =>
  !!roles?.encoding && programRecord.steps.some(({ op }) => op === "sinusoid");

function flat(app: App): HTMLElement {
  const scheme = app.page.schemes.find((s) => turns(app.lab.record(s.name, "plain"))) ?? app.page.schemes[0];
  const run = running(
    app,
    () => scheme.name,
    () => app.state.place,
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
          text: app.state.words[row],
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
      "The first two features of every word, and where its place carries it. Every step turns the arrow by the same angle, and it never gets longer: the word stays near itself.",
    ),
    root,
  );
}

// The page of a watched program: inputs and outputs, and the steps of every module in the order in which they ran.
import type { LeafRecord, StepRecord, ProgramRecord } from "../../core/contract";
import { button, h, numbered, select } from "../../core/dom";
import { save } from "../../core/save";
import { explainer } from "../../widgets/explain";
import { graph } from "../../widgets/graph";
import { matrix } from "../../widgets/matrix";
import { equation, reveal, part } from "../../widgets/steps";
import { navigation } from "../../widgets/navigation";
import { WatchedDesk } from "./desk";

const DRAWN = 40; // steps of a module up to which their graph is drawn

/** Steps that ran one after another in one module. */
interface Part {
  key: string;
  where: string;
  steps: StepRecord[];
}

export function watched(programRecord: ProgramRecord, root: HTMLElement): WatchedDesk {
  const parts = partsOf(programRecord);
  const keys = parts.map(({ key }) => key);
  const heads = Math.max(1, ...programRecord.steps.filter((s) => s.symbol === "A").map((s) => headsOf(s, programRecord)));
  const desk = new WatchedDesk(programRecord, keys, heads);
  const main = h("main", { id: "story", tabindex: -1 });
  const controls = h("div.controls", { "data-part": "controls" });
  desk.rebuild = () => {
    controls.replaceChildren(...choices(desk, heads));
    main.replaceChildren(
      h(
        "div.figure",
        ends(desk),
        parts.map((one) => section(desk, one)),
      ),
    );
  };
  root.replaceChildren(
    h(
      "header",
      navigation("watched"),
      top(desk, main),
      h(
        "p.lede",
        { "data-part": "title" },
        `${programRecord.steps.length} steps in ${parts.length} parts. Point at a number to see how it is computed. Edit any number, and everything after it is recomputed. Heads and positions are counted from 0.`,
      ),
      controls,
      (programRecord.notes ?? []).map((note) => h("p.notice", { "data-part": "notes" }, note)),
    ),
    main,
    explainer(desk),
    h(
      "footer",
      { "data-part": "footer" },
      "equiscope: every number is computed in your browser, from the program of a real module. It works offline and sends nothing anywhere.",
    ),
  );
  desk.restart();
  return desk;
}

function partsOf(programRecord: ProgramRecord): Part[] {
  const found: Part[] = [];
  for (const step of programRecord.steps) {
    const where = step.where ?? "";
    const last = found.at(-1);
    if (last?.where === where) last.steps.push(step);
    else found.push({ key: step.id, where, steps: [step] });
  }
  return found;
}

function headsOf(step: StepRecord, programRecord: ProgramRecord): number {
  const split = programRecord.steps.find((s) => s.op === "heads" && step.axes.includes("head") && s.params?.count);
  return Number(split?.params?.count ?? 1);
}

function top(desk: WatchedDesk, main: HTMLElement): HTMLElement {
  const saved = (kind: "svg" | "png") => {
    desk.pin(undefined);
    save(main, "equiscope-program", kind);
  };
  return h(
    "div.top",
    h("h1", { "data-part": "title" }, `Every number of ${desk.programRecord.title || "a module"}`),
    h(
      "div.buttons",
      { "data-part": "tools" },
      button("↶ Undo", "Undo the last change (Ctrl+Z)", () => desk.undo()),
      button("Reset", "Back to the initial state", () =>
        desk.set({ ...desk.schema.initial(), open: desk.state.open }, { structure: true }),
      ),
      button("SVG", "Save this page as an SVG picture", () => saved("svg")),
      button("PNG", "Save this page as a PNG picture", () => saved("png")),
    ),
  );
}

function choices(desk: WatchedDesk, heads: number): HTMLElement[] {
  const { state } = desk;
  const head = select(
    "head",
    Array.from({ length: heads }, (_, i) => ({ name: String(i), title: `H${i}` })),
    String(state.head),
    (chosen) => desk.set({ head: Number(chosen) }),
  );
  const digits = select("digits", numbered([0, 1, 2, 3, 4, 6]), String(state.digits), (chosen) =>
    desk.set({ digits: Number(chosen) }),
  );
  return [...(heads > 1 ? [head] : []), digits];
}

/** Inputs and outputs. */
function ends(desk: WatchedDesk): HTMLElement {
  const { programRecord } = desk;
  const inputs = programRecord.leaves.filter((leaf) => leaf.kind === "content");
  const of = (ids: string[]) =>
    h(
      "div.row",
      ids.map((id) => matrix(desk, () => desk.run, id)),
    );
  return h(
    "section.part.ends",
    { "data-part": "ends" },
    h("h2", "Inputs and outputs"),
    of(inputs.map(({ id }) => id)),
    of([...new Set(programRecord.outputs)]),
  );
}

const SYMBOLS = 8; // in the heading of a module

/** A module's steps, built when they are opened. */
function section(desk: WatchedDesk, { key, where, steps }: Part): HTMLElement {
  const body = h("div.steps");
  const named = [...new Set(steps.map((s) => s.symbol).filter(Boolean))];
  const symbols = [...named.slice(0, SYMBOLS), ...(named.length > SYMBOLS ? ["…"] : [])].join(", ");
  const open = desk.state.open.includes(key);
  const fold = h<HTMLDetailsElement>(
    "details.part",
    { "data-part": "modules", "data-module": where, "data-key": key, open },
    h("summary", h("b", where || "the model itself"), h("span.quiet", ` ${count(steps.length)}${symbols && `: ${symbols}`}`)),
    body,
  );
  const fill = () => body.childElementCount || body.append(...built(desk, steps));
  if (open) fill();
  fold.addEventListener("toggle", () => {
    if (fold.open) fill();
    const others = desk.state.open.filter((one) => one !== key);
    desk.set({ open: fold.open ? [...others, key] : others });
  });
  return fold;
}

const count = (many: number): string => (many === 1 ? "1 step" : `${many} steps`);

function built(desk: WatchedDesk, steps: StepRecord[]): HTMLElement[] {
  const run = () => desk.run;
  const own = part(
    desk.programRecord,
    steps.map(({ id }) => id),
  );
  const given = new Map<string, LeafRecord>(own.leaves.map((leaf) => [leaf.id, leaf]));
  const root: HTMLElement[] = [];
  if (steps.length > 1 && steps.length <= DRAWN) root.push(graph(own, own.outputs, (id) => reveal(root[0].parentElement!, id)));
  const shown = new Set<string>();
  for (const step of steps) {
    const fresh = step.inputs.filter((id) => given.has(id) && !shown.has(id));
    for (const id of fresh) shown.add(id);
    root.push(
      h(
        "div.step",
        { "data-step": step.id },
        h("div.formula-line", equation(run(), step.id)),
        h(
          "div.row",
          fresh.map((id) => matrix(desk, run, id)),
          matrix(desk, run, step.id),
        ),
      ),
    );
  }
  return root;
}

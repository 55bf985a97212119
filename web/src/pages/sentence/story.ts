// What a story is, and what several stories share.
import type { LeafRecord, ProgramRecord, SchemeVariant } from "../../core/contract";
import { permute } from "../../core/actions";
import { perState, type Run } from "../../core/desk";
import { button, grouped, h } from "../../core/dom";
import { numbered } from "../../core/names";
import { save } from "../../core/save";
import type { App } from "./app";
import type { Setting } from "./lab";
import { equivariance, type Measurement } from "../../core/measure";
import { ancestors } from "../../widgets/graph";
import { matrix } from "../../widgets/matrix";
import { equation } from "../../widgets/steps";
import { dependsOn } from "../../core/program";

/** title: of its tab; heading: what it is about; controls: those of the header that the story listens to. */
export interface Story {
  title: string;
  heading: string;
  lede: string;
  controls: ("scheme" | "causal" | "head")[];
  build(app: App): HTMLElement;
}

export const setting = (app: App): Setting => (app.state.causal ? "causal" : "plain");
export const withMask = (app: App, of: "padded" | "class"): Setting => (app.state.causal ? `${of}-causal` : of);

/** A scheme's program on the words in their order, from position `start` on. */
export function running(
  app: App,
  scheme: () => string,
  start: () => number = () => 0,
  of: () => Setting = () => setting(app),
  slot = "",
): () => Run {
  return perState(app, () =>
    app.lab.run(app.state, scheme(), of(), { rows: app.lab.rows(app.state), source: app.state.order, start: start() }, slot),
  );
}

/** The order to measure with: the current one, or one word moved if it is the original. */
export function order(app: App): number[] {
  const moved = app.state.order.some((row, i) => row !== i);
  const rows = app.state.order.map((_, i) => i);
  return moved || rows.length < 2 ? app.state.order : [...rows.slice(1), 0];
}

/** A scheme's program on the words in the original order. */
export function inOrder(app: App, scheme: string, of: Setting, slot: string): Run {
  const rows = app.lab.rows(
    app.state,
    app.state.order.map((_, i) => i),
  );
  return app.lab.run(app.state, scheme, of, { rows, start: 0 }, slot);
}

export const EQUIVARIANCE = "‖f(gX) − g f(X)‖ / ‖f(X)‖";

/** The equivariance error of a value under the shuffle: f(gX) against g f(X). */
export function shuffleError(app: App, scheme: string, role: string, of: Setting = setting(app)): Measurement {
  const run = inOrder(app, scheme, of, "measured");
  return equivariance(run.record.program, run.leaves, permute(order(app)), run.record.roles![role]);
}

/** What a scheme adds, rotates by or biases with: values computed from positions only that meet the words in the next step.
 * kinds: of the leaves that such a value comes from. */
export function additions(run: Run, kinds: LeafRecord["kind"][] = ["coordinate"]): string[] {
  const { program: programRecord, roles } = run.record;
  const wanted = ancestors(new Map(programRecord.steps.map((s) => [s.id, s])), roles!.output);
  const kindsOf = (id: string) =>
    new Set([...dependsOn(programRecord, id)].map((leaf) => programRecord.leaves.find((l) => l.id === leaf)!.kind));
  const known = new Map(programRecord.steps.map((s) => [s.id, kindsOf(s.id)]));
  const ofPlaces = (id: string) => kinds.some((kind) => known.get(id)?.has(kind)) && !known.get(id)?.has("content");
  const meeting = programRecord.steps
    .filter((s) => wanted.has(s.id) && known.get(s.id)!.has("content"))
    .flatMap((s) => s.inputs)
    .filter(ofPlaces);
  return meeting.filter((id, at) => meeting.findIndex((other) => sameValue(programRecord, id, other)) === at);
}

/** These values, each with its equation and its numbers; their rows are positions. */
export const added = (app: App, run: () => Run, ids: string[]): HTMLElement =>
  h(
    "div.row",
    ids.map((id) =>
      h(
        "div",
        h("div.formula-line", equation(run(), id)),
        matrix(app, run, id, { names: () => numbered(app.state.order.map((_, i) => i)) }),
      ),
    ),
  );

/** Whether two ids are one value, or the same expression computed again: DeBERTa's δ, once for c→p and once for p→c. */
function sameValue(programRecord: ProgramRecord, id: string, other: string): boolean {
  const [one, two] = [id, other].map((name) => programRecord.steps.find((step) => step.id === name));
  return id === other || (!!one?.symbol && one.symbol === two?.symbol && one.label === two.label);
}

/** The schemes that are compared, in the order of the page. */
export const shown = (app: App): SchemeVariant[] => app.page.schemes.filter(({ name }) => app.state.schemes.includes(name));

/** A choice of the schemes that are compared: few at first, the others on demand. */
export function comparedSchemes(app: App): HTMLElement {
  const { schemes } = app.page;
  const set = (chosen: string[], focus: string) => {
    app.unfolded = true;
    app.set({ schemes: schemes.map(({ name }) => name).filter((name) => chosen.includes(name)) }, { structure: true });
    document.querySelector<HTMLElement>(`.compared [data-focus="${CSS.escape(focus)}"]`)?.focus();
  };
  const box = (name: string, title: string) => {
    const shown = app.state.schemes.includes(name);
    return h(
      "label.choice",
      h("input", {
        type: "checkbox",
        "data-focus": name,
        checked: shown,
        disabled: shown && app.state.schemes.length === 1,
        onchange: () => set(shown ? app.state.schemes.filter((other) => other !== name) : [...app.state.schemes, name], name),
      }),
      h("span", title),
    );
  };
  const all = schemes.map(({ name }) => name);
  return h(
    "details.compared",
    { open: app.unfolded, ontoggle: (event: Event) => (app.unfolded = (event.target as HTMLDetailsElement).open) },
    h("summary", `${app.state.schemes.length} of ${schemes.length} schemes are shown. More …`),
    h(
      "div.buttons",
      button("All", "Show all schemes", () => set(all, "all"), { "data-focus": "all" }),
      button("Few", "Show the schemes of the beginning", () => set(app.page.compared, "few"), { "data-focus": "few" }),
    ),
    [...grouped(schemes)].map(([group, members]) =>
      h(
        "fieldset",
        group ? h("legend", group) : false,
        members.map(({ name, title }) => box(name, title)),
      ),
    ),
  );
}

/** A part of a story with its heading, and a button that saves this part as a picture. part: its name in a figure. */
export function section(part: string, title: string, ...content: (Node | string | undefined | false)[]): HTMLElement {
  const name = `equiscope-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  const keep = button("⤓ save", "Save this part as an SVG picture", () => save(root, name, "svg"), {
    class: "keep",
  });
  const root: HTMLElement = h(
    "section.part",
    { "data-part": part },
    title ? h("div.head", h("h2", title), keep) : false,
    content.map((c) => (typeof c === "string" ? h("p", c) : c)),
  );
  return root;
}

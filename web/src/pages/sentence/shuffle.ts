// E2: shuffle the words; without positions the outputs move with them. Where they do not, the numbers that changed are marked.
import { permute } from "../../core/actions";
import { guarded, perState, type Run } from "../../core/desk";
import { h } from "../../core/dom";
import { differs } from "../../core/measure";
import { moved } from "../../core/moved";
import { matrix } from "../../widgets/matrix";
import { strip } from "../../widgets/strip";
import { claim, verdict } from "../../widgets/verdict";
import type { App } from "./app";
import { added, additions, EQUIVARIANCE, inOrder, order, running, section, setting, shuffleError, type Story } from "./story";

const ROLES: [string, string][] = [
  ["words", "words in their order"],
  ["weights", "attention weights: rows and columns move"],
  ["mixed", "result: weighted sums of values"],
];

export const shuffle: Story = {
  title: "Shuffle",
  heading: "Shuffle the words: does the output move with them?",
  lede: "If the layer is permutation equivariant, every output row moves with its word and no number changes. Choose a position scheme or the causal mask, and shuffle again: numbers that did not move with their word are marked with ≠.",
  controls: ["scheme", "causal", "head"],
  build(app: App): HTMLElement {
    const run = running(app, () => app.state.scheme);
    const expected = carried(app);
    const idle = () => app.state.order.every((row, i) => row === i);
    const compared = (id: string) => (idle() ? undefined : expected().program.get(id));
    const { roles } = run().record;
    const measured = h("div.measured");
    guarded(app, measured, () => {
      const names = order(app)
        .map((row) => app.state.words[row])
        .join(" ");
      measured.querySelector(".inner")?.remove();
      measured.prepend(
        h(
          "div.inner",
          verdict(EQUIVARIANCE, shuffleError(app, app.state.scheme, "output")),
          h("p.quiet", idle() ? `Nothing is shuffled yet; measured with “${names}”.` : `Measured with “${names}”.`),
          claim(app.lab.record(app.state.scheme, setting(app)).claims.find((c) => c.action === "permute")),
        ),
      );
    });
    const brought = additions(run(), ["coordinate", "order"]);
    return h(
      "div.flow",
      strip(app),
      section("verdict", "Do the outputs move with their words?", measured, legend(app, run, idle, compared)),
      twice(app, run, expected, idle),
      section(
        "inside",
        "The words, the weights and the result",
        h(
          "div.row",
          ROLES.map(([role, caption]) => matrix(app, run, roles![role], { caption, expected: () => compared(roles![role]) })),
        ),
      ),
      brought.length > 0 &&
        section(
          "added",
          "What the scheme makes of the positions",
          h("p", "These numbers belong to positions, not to words: they stay where they are while the words move."),
          added(app, run, brought),
        ),
    );
  },
};

/** g f(X): every value of the unshuffled run, with its rows (and columns of words) moved along. */
const carried = (app: App): (() => Run) =>
  perState(app, () => moved(inOrder(app, app.state.scheme, setting(app), "carried"), permute(app.state.order), app.state.order));

/** How many numbers of the output changed, in words. */
function legend(
  app: App,
  run: () => Run,
  idle: () => boolean,
  compared: (id: string) => { data: Float64Array } | undefined,
): HTMLElement {
  const line = h("p.changed-count", { role: "status" });
  guarded(app, line, () => {
    const id = run().record.roles!.output;
    const [found, wanted] = [run().program.get(id).data, compared(id)?.data];
    const size = found.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const count = wanted ? found.reduce((sum, x, i) => sum + Number(differs(x, wanted[i], size)), 0) : 0;
    const few = app.state.digits;
    const alike = !!wanted && found.some((x, i) => differs(x, wanted[i], size) && x.toFixed(few) === wanted[i].toFixed(few));
    const changed = `${count === found.length ? `All ${count}` : `${count} of ${found.length}`} numbers of the output changed${count < found.length ? "; the others moved with their word" : ""}.`; // prettier-ignore
    line.replaceChildren(
      ...(idle()
        ? ["Shuffle the words to see what moves."]
        : count
          ? [h("b.sign", "≠"), ` ${changed}${alike ? ` Some look alike with ${few} digits: choose more.` : ""}`]
          : [`All ${found.length} numbers of the output moved with their word.`]),
    );
  });
  return line;
}

/** The output twice: shuffled before the layer, and after it. */
function twice(app: App, run: () => Run, expected: () => Run, idle: () => boolean): HTMLElement {
  const id = run().record.roles!.output;
  const root = section(
    "output",
    "The same output twice: f(gX) and g f(X)",
    h(
      "div.row",
      matrix(app, run, id, { caption: "f(gX): shuffle, then the layer", expected: () => (idle() ? undefined : expected().program.get(id)) }), // prettier-ignore
      matrix(app, expected, id, { caption: "g f(X): the layer, then the same shuffle" }),
    ),
    h("p.quiet", "The layer is equivariant to this shuffle where both are equal."),
  );
  return root;
}

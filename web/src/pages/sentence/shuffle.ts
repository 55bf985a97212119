// E2: shuffle the words; without positions the outputs move with them.
import { guarded } from "../../core/desk";
import { asPart, h } from "../../core/dom";
import { matrix } from "../../widgets/matrix";
import { strip } from "../../widgets/strip";
import { claim, verdict } from "../../widgets/verdict";
import type { App } from "./app";
import { EQUIVARIANCE, order, running, section, setting, shuffleError, type Story } from "./story";

const ROLES: [role: string, part: string, caption: string][] = [
  ["words", "words", "words in their order"],
  ["weights", "weights", "attention weights: rows and columns move"],
  ["mixed", "weighted-sum", "weighted sum of the values"],
  ["output", "output", "output of the layer"],
];

export const shuffle: Story = {
  title: "Shuffle",
  lede: "Put the words in another order. If the layer is permutation equivariant, every output row moves with its word and no number changes.",
  controls: ["scheme", "causal", "head"],
  build(app: App): HTMLElement {
    const run = running(app, () => app.state.scheme);
    const measured = h("div.measured");
    guarded(app, measured, () => {
      const names = order(app)
        .map((row) => app.state.words[row])
        .join(" ");
      const idle = app.state.order.every((row, i) => row === i);
      measured.querySelector(".inner")?.remove();
      measured.prepend(
        h(
          "div.inner",
          verdict(EQUIVARIANCE, shuffleError(app, app.state.scheme, "output")),
          h("p.quiet", idle ? `Nothing is shuffled yet; measured with “${names}”.` : `Measured with “${names}”.`),
          claim(app.lab.record(app.state.scheme, setting(app)).claims.find((c) => c.action === "permute")),
        ),
      );
    });
    return h(
      "div.flow",
      strip(app),
      section("verdict", "Do the outputs move with their words?", measured),
      section(
        "matrices",
        "",
        h(
          "div.row",
          ROLES.map(([role, part, caption]) => asPart(part, matrix(app, run, run().record.roles![role], { caption }))),
        ),
      ),
    );
  },
};

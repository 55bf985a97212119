// E10: read-outs (pooling) under shuffling, and whether they depend on the order of the rows.
import { permute } from "../../core/actions";
import { guarded } from "../../core/desk";
import { h } from "../../core/dom";
import { error } from "../../core/format";
import { equivariances, type Measurement } from "../../core/measure";
import { matrix } from "../../widgets/matrix";
import { strip } from "../../widgets/strip";
import { judged } from "../../widgets/verdict";
import type { App } from "./app";
import { inOrder, order, running, section, setting, type Story, withMask } from "./story";

const READOUTS: [string, string, "class"?][] = [
  ["mean", "mean of the rows"],
  ["class", "class token, not shuffled", "class"],
  ["first", "first row"],
  ["last", "last row"],
  ["concatenation", "concatenation of all rows"],
];

export const readouts: Story = {
  title: "Read-outs",
  heading: "Which read-out (pooling) depends on the order of the words?",
  lede: "A read-out turns the rows of the last layer into one vector. Shuffle the words: the table shows which read-outs change, without positions and with them.",
  controls: ["scheme", "causal"],
  build(app: App): HTMLElement {
    const bare = app.page.schemes.find((s) => app.lab.record(s.name, "plain").claims.every((c) => c.holds))?.name;
    const schemes = [...new Set([bare ?? app.state.scheme, app.state.scheme, app.state.versus])];
    return h(
      "div.flow",
      strip(app),
      section("readouts", "How much each read-out changes when the words are shuffled", table(app, schemes)),
      section(
        "current",
        "The read-outs in the current order",
        h(
          "div.steps",
          READOUTS.map(([role, title, own]) => {
            const run = running(
              app,
              () => app.state.scheme,
              () => 0,
              () => (own ? withMask(app, own) : setting(app)),
              `readout-${role}`,
            );
            return h("div.step", { "data-readout": role }, matrix(app, run, run().record.roles![role], { caption: title }));
          }),
        ),
      ),
    );
  },
};

function table(app: App, schemes: string[]): HTMLElement {
  const body = h("tbody");
  const root = h("div");
  guarded(app, root, () => {
    const found = schemes.map((scheme) => measured(app, scheme));
    body.replaceChildren(
      ...READOUTS.map(([role, title]) =>
        h(
          "tr",
          { "data-role": role },
          h("th", { scope: "row" }, title),
          schemes.map((scheme, i) => {
            const measurement = found[i].get(role)!;
            return h(
              "td",
              { "data-scheme": scheme, "data-verdict": measurement.verdict },
              judged(measurement.verdict),
              ` ${measurement.verdict === "holds" ? "stays" : "changes"} ${error(measurement.error)}`,
            );
          }),
        ),
      ),
    );
  });
  root.append(
    h(
      "div.scroll",
      h(
        "table.laws",
        h(
          "thead",
          h(
            "tr",
            h("th", "read-out"),
            schemes.map((name) => h("th", { scope: "col" }, app.page.schemes.find((s) => s.name === name)!.title)),
          ),
        ),
        body,
      ),
    ),
  );
  return root;
}

/** All read-outs of a scheme under the shuffle; those of one program share the work. */
function measured(app: App, scheme: string): Map<string, Measurement> {
  const action = permute(order(app));
  const found = new Map<string, Measurement>();
  for (const own of [undefined, "class"] as const) {
    const roles = READOUTS.filter(([, , of]) => of === own).map(([role]) => role);
    const run = inOrder(app, scheme, own ? withMask(app, own) : setting(app), "read");
    const outputs = roles.map((role) => run.record.roles![role]);
    equivariances(run.record.program, run.leaves, action, outputs).forEach((measurement, i) => found.set(roles[i], measurement));
  }
  return found;
}

// E10: read-outs under shuffling: what is taken from the rows, and whether it can tell one order from another.
import { permute } from "../actions";
import { type App, guarded } from "../app";
import { h } from "../dom";
import { error } from "../format";
import { equivariance } from "../measure";
import { matrix } from "../marks/matrix";
import { strip } from "../marks/strip";
import { inOrder, order, running, section, setting, sign, type Story, withMask } from "./story";

const READOUTS: [string, string, "class"?][] = [
  ["mean", "mean of the rows"],
  ["class", "class token, held out of the shuffle", "class"],
  ["first", "first row"],
  ["last", "last row"],
  ["concatenation", "all rows in a line"],
];

export const readouts: Story = {
  title: "Read-outs",
  lede: "What is read from the last layer? Shuffle the words. Without positions a mean and a class token stay, while the first row, the last row and all rows in a line change. Positions change them all.",
  controls: ["scheme", "causal"],
  build(app: App): HTMLElement {
    const schemes = [...new Set(["none", app.state.scheme, app.state.versus])].filter((name) =>
      app.page.schemes.some((s) => s.name === name),
    );
    return h(
      "div.flow",
      strip(app),
      section("How much each read-out changes when the words are shuffled", table(app, schemes)),
      section(
        "The read-outs, as the words stand",
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
    const action = permute(order(app));
    body.replaceChildren(
      ...READOUTS.map(([role, title, own]) =>
        h(
          "tr",
          { "data-role": role },
          h("th", { scope: "row" }, title),
          schemes.map((scheme) => {
            const run = inOrder(app, scheme, own ? withMask(app, own) : setting(app), "read");
            const found = equivariance(run.record.trace, run.leaves, action, run.record.roles![role]);
            const { mark, kind } = sign(found);
            return h(
              "td",
              { "data-scheme": scheme, "data-verdict": found.verdict, class: kind },
              `${mark} ${kind === "holds" ? "stays" : "changes"} ${error(found.error)}`,
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

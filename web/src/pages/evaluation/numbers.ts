// Predicted numbers beside the true ones: on the diagonal they are equal.
import { at, n, segment } from "../../charts/marks";
import { paddedRange } from "../../charts/scale";
import { still } from "../../charts/still";
import type { PredictedNumber } from "../../core/contract";
import { asPart, h, svg } from "../../core/dom";

const SIZE = [560, 420] as const; // pixels

export function numbers({ name, unit, true: wanted, predicted }: PredictedNumber): HTMLElement {
  const range = paddedRange([...wanted, ...predicted], false, 0.04);
  const of = (kind: string) => `${kind} ${name}${unit ? `, in ${unit}` : ""}`;
  const label = `${wanted.length} examples: ${of("predicted")} above ${of("true")}, with the diagonal on which they are equal`;
  const picture = still(
    { label, width: SIZE[0], height: SIZE[1], left: 72, x: { range, title: of("true") }, y: { range } },
    (space) => [
      segment("line.equal", at(space, [range[0], range[0]]), at(space, [range[1], range[1]])),
      svg("path.dots", { d: wanted.map((x, i) => at(space, [x, predicted[i]])).filter(([, y]) => Number.isFinite(y)).map(([x, y]) => `M${n(x)} ${n(y)}h0`).join("") }), // prettier-ignore
    ],
  );
  return asPart(
    "numbers",
    h(
      "section.part",
      h("h2", `Predicted ${name}`),
      h("p.quiet", `Upwards: ${of("predicted")}. On the line they are equal.`),
      h("figure", picture),
    ),
  );
}

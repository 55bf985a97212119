// The scale of errors: powers of ten from 1e-17 to 10, with positions of their own for 0 and for what is not finite, in percent of the
// width.
import type { Scale } from "../../charts/scale";
import { scientific } from "../../core/format";

export const [LEAST, MOST] = [-17, 1]; // powers of ten
const [ZERO, FROM, TO, ENDLESS] = [3, 8, 94, 98];

/** A negative number stands for an error that is not finite. */
export const errorScale: Scale = {
  ticks: [0, 1e-16, 1e-12, 1e-8, 1e-4, 1],
  place(error: number | null | undefined) {
    if (error === null || error === undefined || !Number.isFinite(error) || error < 0) return ENDLESS;
    if (error === 0) return ZERO;
    const power = Math.min(Math.max(Math.log10(error), LEAST), MOST);
    return FROM + ((power - LEAST) / (MOST - LEAST)) * (TO - FROM);
  },
  text: (value) => (value === 1 ? "1" : scientific(value).replace(/^1\.0·/, "")),
};

/** A tolerance in per cent. */
export const share = (value: number): string => `${Number((100 * value).toPrecision(3))} %`;

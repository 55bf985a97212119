// What d3-scale asks of d3-interpolate and d3-format, for plain numbers: vite.config.ts puts this file in their place. Colours, dates and
// locales, which no scale of these pages has, would be more than half of d3-scale's bytes in every page with a chart.
export const interpolateNumber = (a: number, b: number) => (t: number) => a * (1 - t) + b * t;
export const interpolateRound = (a: number, b: number) => (t: number) => Math.round(a * (1 - t) + b * t);
export { interpolateNumber as interpolate };
export const piecewise = undefined; // of scales with more than two ends

interface Specifier {
  type: string;
  precision?: number;
}

/** "f": with fixed decimals, "g": as short as it is. */
export const formatSpecifier = (text: string): Specifier => ({ type: text.slice(-1) });

export const format =
  (given: Specifier | string) =>
  (value: number): string => {
    const { type, precision = 0 } = typeof given === "string" ? formatSpecifier(given) : given;
    return (type === "f" ? value.toFixed(precision) : String(value)).replace(/^-/, "−");
  };

const exponent = (value: number): number => Math.floor(Math.log10(Math.abs(value)) + 1e-9);

/** The decimals that distinguish numbers which lie so far from each other. */
export const precisionFixed = (step: number): number => Math.max(0, -exponent(step));
export const precisionRound = (step: number, most: number): number => Math.max(0, exponent(Math.abs(most) - Math.abs(step)) - exponent(step)) + 1; // prettier-ignore
export const [precisionPrefix, formatPrefix] = [undefined, undefined]; // of SI prefixes

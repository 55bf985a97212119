// The colours of the scene, light and dark.
export interface Palette {
  dark: boolean;
  ink: string; // of outlines
  paper: string; // into which far objects fade
  text: string;
  arrow: string;
  ghost: string;
  focus: string;
  atom(colour: string): string;
  weight(share: number): string;
}

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const named = (name: string) => style.getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const [low, high] = dark ? ["#4a4257", "#ffb347"] : ["#e6dccb", "#d9480f"];
  return {
    dark,
    ink: dark ? "#0c0d10" : "#2a2b31",
    paper: dark ? "#262a32" : "#f1f4f8",
    text: named("--ink"),
    arrow: dark ? "#5fe0b0" : "#0b8f5f",
    ghost: dark ? "#ffffff" : "#55565e",
    focus: named("--focus"),
    atom: (colour) => (dark && light(colour) < 0.16 ? mixed(colour, "#ffffff", 0.3) : colour),
    weight: (share) => mixed(low, high, Math.sqrt(share)),
  };
}

const channels = (colour: string): number[] => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

export function mixed(a: string, b: string, share: number): string {
  const [from, to] = [channels(a), channels(b)];
  return `#${from
    .map((v, k) =>
      Math.round(v + share * (to[k] - v))
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

/** Relative luminance, 0 to 1. */
export function light(colour: string): number {
  const [r, g, b] = channels(colour).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

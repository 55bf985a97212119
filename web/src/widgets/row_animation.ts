// Animates rows to their new positions: they start at the old positions and move to the new ones.
const CALM = "(prefers-reduced-motion: reduce)";

/** lines[ahead + i] now shows word after[i], which stood at before.indexOf(after[i]). */
export function glide(lines: HTMLElement[], before: string[], after: string[], ahead: number): void {
  if (matchMedia(CALM).matches || !lines[0]?.animate) return;
  const tops = lines.map((line) => line.offsetTop);
  after.forEach((word, i) => {
    const from = before.indexOf(word);
    const [now, then] = [lines[ahead + i], tops[ahead + from]];
    if (!now || then === undefined || then === now.offsetTop) return;
    now.animate([{ transform: `translateY(${then - now.offsetTop}px)` }, { transform: "none" }], {
      duration: 450,
      easing: "cubic-bezier(.3,0,.1,1)",
    });
  });
}

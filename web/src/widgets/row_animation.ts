// Animates rows to their new positions: they start at the old positions and move to the new ones. Numbers that did not move with
// their row flash when it has arrived.
const CALM = "(prefers-reduced-motion: reduce)";
const [GLIDE, FLASH] = [450, 700]; // milliseconds

/** lines[ahead + i] now shows word after[i], which stood at before.indexOf(after[i]). */
export function glide(lines: HTMLElement[], before: string[], after: string[], ahead: number): void {
  if (matchMedia(CALM).matches || !lines[0]?.animate) return;
  const tops = lines.map((line) => line.offsetTop);
  after.forEach((word, i) => {
    const from = before.indexOf(word);
    const [now, then] = [lines[ahead + i], tops[ahead + from]];
    if (!now || then === undefined || then === now.offsetTop) return;
    now.animate([{ transform: `translateY(${then - now.offsetTop}px)` }, { transform: "none" }], {
      duration: GLIDE,
      easing: "cubic-bezier(.3,0,.1,1)",
    });
  });
}

export function flash(cells: HTMLElement[]): void {
  if (matchMedia(CALM).matches) return;
  for (const cell of cells)
    cell.animate?.([{ transform: "scale(1.35)", background: "var(--operand)" }, { transform: "none" }], {
      duration: FLASH,
      delay: GLIDE,
    });
}

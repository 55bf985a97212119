// Pointer and keyboard on a stage: a drag rotates the molecule or moves the chosen atom; a tap chooses; keys do the same.
import type { Stage } from "./stage";
import { rotationAbout, compose, DEGREE, type Three } from "./rotation";

const STEP = 5 * DEGREE;
const FINE = 1 * DEGREE;
const SLOW = 0.5 * DEGREE; // of one pixel
const TAP = 5; // pixels, within which a press is a tap
export const NUDGE = 0.05; // Å

const TURNS: Record<string, Three> = {
  ArrowLeft: [0, -1, 0],
  ArrowRight: [0, 1, 0],
  ArrowUp: [-1, 0, 0],
  ArrowDown: [1, 0, 0],
  PageUp: [0, 0, 1],
  PageDown: [0, 0, -1],
};
const WAYS: Record<string, Three> = {
  ArrowLeft: [-1, 0, 0],
  ArrowRight: [1, 0, 0],
  ArrowUp: [0, 1, 0],
  ArrowDown: [0, -1, 0],
  PageUp: [0, 0, 1],
  PageDown: [0, 0, -1],
};
export const KEYS =
  "Arrow keys rotate the molecule by 5 degrees, with Alt by 1; Page Up and Page Down roll it. N and P choose the next and the previous atom, Escape none. With Shift the same keys move the chosen atom by 0.05 Å, Page Up nearer and Page Down away.";

export function pointerControls(stage: Stage, area: HTMLElement): void {
  const { desk } = stage;
  let held: { id: number; x: number; y: number; atom: number; moved: boolean } | undefined;
  const at = (event: PointerEvent) => {
    const box = area.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  area.addEventListener("pointerdown", (event) => {
    if (held || event.button > 0) return;
    const { x, y } = at(event);
    const under = stage.atomAt(x, y, event.pointerType === "mouse" ? 3 : 10);
    held = { id: event.pointerId, x, y, atom: under >= 0 && under === desk.state.atom ? under : -1, moved: false };
    area.setPointerCapture(event.pointerId);
    desk.rest();
  });
  area.addEventListener("pointermove", (event) => {
    const { x, y } = at(event);
    if (!held) {
      const under = stage.atomAt(x, y, 0);
      area.style.cursor = under < 0 ? "grab" : under === desk.state.atom ? "move" : "pointer";
      return;
    }
    if (event.pointerId !== held.id) return;
    const [dx, dy] = [x - held.x, y - held.y];
    if (!held.moved && Math.hypot(dx, dy) < TAP) return;
    const first = !held.moved;
    held = { ...held, x, y, moved: true };
    area.style.cursor = "grabbing";
    if (held.atom >= 0) {
      const pixels = stage.view.scale * stage.view.seen(desk.seen(held.atom)).near;
      desk.move(held.atom, [dx / pixels, -dy / pixels, 0], first);
    } else desk.rotate(compose(rotationAbout([0, 1, 0], dx * SLOW), rotationAbout([1, 0, 0], dy * SLOW)), first);
  });
  const up = (event: PointerEvent) => {
    if (!held || event.pointerId !== held.id) return;
    const [{ x, y }, tapped] = [at(event), !held.moved && event.type === "pointerup"];
    held = undefined;
    area.style.cursor = "";
    if (tapped) desk.choose(stage.atomAt(x, y, event.pointerType === "mouse" ? 3 : 10));
  };
  area.addEventListener("pointerup", up);
  area.addEventListener("pointercancel", up);

  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    const { atom } = desk.state;
    if (event.shiftKey && event.key in WAYS && atom >= 0)
      desk.move(atom, WAYS[event.key].map((part) => part * NUDGE) as unknown as Three); // prettier-ignore
    else if (event.key in TURNS) desk.rotate(rotationAbout(TURNS[event.key], event.altKey ? FINE : STEP));
    else if (event.key === "n" || event.key === "N") desk.choose((atom + 1) % desk.atoms);
    else if (event.key === "p" || event.key === "P") desk.choose((Math.max(atom, 0) + desk.atoms - 1) % desk.atoms);
    else if (event.key === "Escape" && atom >= 0) desk.choose(-1);
    else return;
    event.preventDefault();
    desk.rest();
  });
}

// Prefix tokens as buttons: a class token, registers.
import type { TokenSequence } from "../../core/contract";
import { h } from "../../core/dom";
import { brief, visible } from "../../core/labels";
import type { Listener, Shown } from "./lines";

export function front(line: TokenSequence, listener: Listener, title: string) {
  const buttons = Array.from({ length: line.prefix_tokens ?? 0 }, (_, i) => {
    const press = () => listener.pick(i);
    return h("button.token", { type: "button", title: visible(line.labels[i], i), onclick: press, onpointerenter: () => listener.point(i), onpointerleave: () => listener.point(undefined) }, h("bdi", brief(line.labels[i], i))); // prettier-ignore
  });
  return {
    element: buttons.length > 0 && h("div.before", { role: "group", "aria-label": title }, buttons),
    draw(strength: (place: number) => number, now: Shown): void {
      buttons.forEach((one, i) => {
        one.style.setProperty("--tint", String(Math.round(Math.abs(strength(i)) * 60)));
        const out = now.hidden.includes(i);
        one.dataset.mark = [i === now.chosen && "chosen", i === now.other && "other", out && "out"].filter(Boolean).join(" ");
        one.setAttribute("aria-pressed", String(i === now.chosen));
      });
    },
  };
}

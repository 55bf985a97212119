// The sizes: presets, and for each size a slider and a field. An invalid size is refused with a sentence.
import type { Size } from "../../core/contract";
import { h } from "../../core/dom";
import { divisors, type Sizes, whole } from "./formula";
import type { CostPage } from "./page";
import { changed, nearest, preset, refusal, sized } from "./state";

interface Row {
  element: HTMLElement;
  draw(): void;
}

export function sizes(page: CostPage): Row {
  const { cost } = page;
  const status = h("p.summary", { role: "status" });
  const known = cost.presets.map(({ name, title }) => {
    const press = h<HTMLButtonElement>("button", { type: "button", onclick: () => choose(name) }, title);
    return { name, press };
  });
  const tell = (text: string) => {
    status.textContent = text;
  };
  const choose = (name: string) => {
    tell("");
    page.set({ ...page.schema.read(`model=${encodeURIComponent(name)}`), bytes: page.state.bytes, view: page.state.view });
  };
  const set = (letter: string, value: number, step = true) => {
    const { sizes, changes } = sized(page.state.sizes, letter, value);
    tell(changes.join(" "));
    page.set({ sizes }, { step });
  };
  const rows = cost.sizes.map((size) => row(size, page, set, tell));
  const gate = h<HTMLInputElement>("input", { type: "checkbox", onchange: () => page.set({ gate: gate.checked }) });
  const element = h(
    "section.part.sizes",
    { "data-part": "sizes" },
    { "aria-label": "sizes" },
    h("div.known", { role: "group", "aria-label": "Known models", "data-part": "models" }, known.map(({ press }) => press)), // prettier-ignore
    h("div.rows", rows.map(({ element }) => element)), // prettier-ignore
    h("label.gate", { "data-part": "gate" }, gate, h("span", "gated feed-forward (SwiGLU): three projections instead of two")),
    status,
  );
  const draw = () => {
    const own = !changed(cost, page.state);
    for (const { name, press } of known) {
      press.setAttribute("aria-pressed", String(own && name === page.state.model));
      press.dataset.from = String(!own && name === page.state.model);
    }
    gate.checked = page.state.gate;
    rows.forEach(({ draw }) => draw());
  };
  return { element, draw };
}

/** The stops of a slider: divisors, multiples of the width, or those of the record. */
function stops({ letter, stops }: Size, sizes: Sizes): number[] {
  if (letter === "H") return divisors(sizes.D);
  if (letter === "G") return divisors(sizes.H);
  if (letter === "F") return [...new Set(Array.from({ length: 32 }, (_, i) => Math.round(((i + 1) / 4) * sizes.D)))].filter((f) => f >= 1); // prettier-ignore
  return stops ?? [];
}

const times = (value: number): string => String(Number(value.toFixed(3)));

/** A size in words; for the feed-forward with the multiple of the width. */
export const sizeText = (letter: string, sizes: Sizes): string =>
  letter === "F" ? `${times(sizes.F / sizes.D)} times, ${whole(sizes.F)} features` : whole(sizes[letter]);

function row(
  size: Size,
  page: CostPage,
  set: (letter: string, value: number, step?: boolean) => void,
  tell: (text: string) => void,
): Row {
  const { letter, name } = size;
  let [places, first]: [number[], boolean] = [[], true];
  const wrong = h("span.wrong", { id: `wrong-${letter}` });
  const range = h<HTMLInputElement>("input", {
    type: "range",
    min: 0,
    step: 1,
    "aria-label": `${name}, ${letter}`,
    oninput: () => {
      refuse("");
      set(letter, places[Number(range.value)], first);
      first = false;
    },
    onchange: () => {
      first = true;
    },
  });
  const field = h<HTMLInputElement>("input", {
    type: "text",
    inputmode: letter === "F" ? "decimal" : "numeric",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: 12,
    "aria-label": `${name}, ${letter}, as a number`,
    onchange: () => {
      const text = field.value.replaceAll(/[,\s]/g, "");
      const typed = text === "" ? NaN : Number(text);
      const value = letter === "F" ? Math.round(typed * page.state.sizes.D) : typed;
      const why = letter === "F" && !(typed > 0 && typed <= 64) ? `${name}: a number above 0, up to 64.` : refusal(size, value, page.state.sizes); // prettier-ignore
      refuse(why);
      if (why) tell(why);
      else set(letter, value);
    },
    onkeydown: (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      refuse("");
      draw();
    },
  });
  const refuse = (why: string) => {
    wrong.textContent = why;
    if (why) {
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", wrong.id);
    } else {
      field.removeAttribute("aria-invalid");
      field.removeAttribute("aria-describedby");
    }
  };
  const aside = letter === "F" ? h("span.aside") : letter === "H" ? h("span.aside") : undefined;
  const element = h(
    "div.size",
    { "data-size": letter, "data-part": `size-${letter.toLowerCase()}` },
    h("span.name", h("i.sym", letter), name, aside),
    range,
    field,
    wrong,
  );
  function draw(): void {
    const { sizes } = page.state;
    places = stops(size, sizes);
    range.max = String(places.length - 1);
    range.value = String(places.indexOf(nearest(places, sizes[letter])));
    range.setAttribute("aria-valuetext", sizeText(letter, sizes));
    range.disabled = places.length < 2;
    refuse("");
    field.value = letter === "F" ? times(sizes.F / sizes.D) : whole(sizes[letter]);
    if (aside) aside.textContent = letter === "F" ? ` = ${whole(sizes.F)} features` : `, each ${whole(sizes.D / sizes.H)} wide`;
  }
  return { element, draw };
}

/** The name of the chosen model. */
export function modelName(page: CostPage): string {
  const { title } = preset(page.cost, page.state.model);
  return changed(page.cost, page.state) ? `${title}, modified` : title;
}

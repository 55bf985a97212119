// Elements in one line: h("p.note", { id: "x" }, "text", child). Text is always text, never markup.
type Child = Node | string | number | false | null | undefined;
type Attributes = Record<string, unknown>;

const SVG = "http://www.w3.org/2000/svg";

/** tag with classes ("div.card.wide"); attributes set as such, `on...` as listeners; false and null are left out. */
export function h<E extends HTMLElement = HTMLElement>(tag: string, ...rest: (Attributes | Child | Child[])[]): E {
  return fill(document.createElement(name(tag)), tag, rest) as E;
}

export function svg<E extends SVGElement = SVGElement>(tag: string, ...rest: (Attributes | Child | Child[])[]): E {
  return fill(document.createElementNS(SVG, name(tag)), tag, rest) as E;
}

const name = (tag: string): string => tag.split(".")[0];

function fill(element: Element, tag: string, rest: (Attributes | Child | Child[])[]): Element {
  const classes = tag.split(".").slice(1);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const part of rest.flat()) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node) element.append(part);
    else if (typeof part === "object") attributes(element, part as Attributes);
    else element.append(String(part));
  }
  return element;
}

function attributes(element: Element, given: Attributes): void {
  for (const [key, value] of Object.entries(given)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value as EventListener);
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(key, value === true ? "" : String(value));
  }
}

/** An element as a part of its page, which a figure shows by this name. */
export function asPart<E extends HTMLElement>(name: string, element: E): E {
  element.dataset.part = name;
  return element;
}

/** One thing to choose; those of one group, which stand side by side, share a heading. */
export interface Option {
  name: string;
  title: string;
  group?: string;
}

/** A choice among named things. */
export function select(label: string, options: Option[], value: string, choose: (value: string) => void): HTMLElement {
  const list = h<HTMLSelectElement>("select", { "aria-label": label, onchange: () => choose(list.value) });
  for (const [group, members] of grouped(options)) {
    const items = members.map(({ name, title }) => h("option", { value: name, selected: name === value }, title));
    list.append(...(group ? [h("optgroup", { label: group }, items)] : items));
  }
  return h("label.choice", h("span", label), list);
}

/** Things by the heading of their group, in the order in which the headings come. */
export function grouped<T extends { group?: string }>(things: T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const thing of things) groups.set(thing.group ?? "", [...(groups.get(thing.group ?? "") ?? []), thing]);
  return groups;
}

/** Numbers to choose from. */
export const numbered = (counts: number[]): Option[] => counts.map((count) => ({ name: String(count), title: String(count) }));

export function button(text: string, title: string, press: () => void, more: Attributes = {}): HTMLButtonElement {
  return h<HTMLButtonElement>("button", { type: "button", title, onclick: press, ...more }, text);
}

/** A slider that speaks while it is dragged; `first` marks the beginning of a movement, which is what an undo takes back. */
export function slider(
  label: string,
  range: [number, number],
  value: number,
  move: (value: number, first: boolean) => void,
  read: (value: number) => string = String,
): HTMLElement {
  let first = true;
  const output = h("output", read(value));
  const input = h<HTMLInputElement>("input", {
    type: "range",
    min: range[0],
    max: range[1],
    step: 1,
    value,
    "aria-label": label,
    "aria-valuetext": read(value),
    oninput: () => {
      output.textContent = read(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
      move(Number(input.value), first);
      first = false;
    },
    onchange: () => {
      first = true;
    },
  });
  return h("label.slider", h("span", label), input, output);
}

// The graph: words on a circle, an arrow for each message. Its colour is the sender's, its width and opacity are the weight.
// Select a word to see its incoming messages; click an arrow to remove or add the edge.
import { h, svg } from "../../core/dom";
import { number } from "../../core/format";
import { brief } from "../../core/labels";
import type { GraphDesk } from "./desk";
import { anchor, angleOf, arrow, loop, onCircle, type Point, turned } from "./layout";

const [DOT, GAP, FAR, TOUCHED] = [9, 13, 38, 17]; // pixels: a node, from its middle to arrows, to the end of a loop, what a finger meets
const [LARGEST, LETTERS, NARROW] = [600, 11, 460];
const WIDEST = 0.26; // share of the picture that a word may take
const TALL = 210; // the largest radius: the whole picture fits into a window
const WRITTEN = 8; // words up to which weights stand at the arrows
const GLIDE = 450; // milliseconds

interface Edge {
  to: number;
  from: number;
  group: SVGElement;
  line: SVGElement;
  tip: SVGElement;
  hit: SVGElement;
  text: SVGElement;
}

export function picture(desk: GraphDesk): { element: HTMLElement; draw(): void } {
  const { nodes, words } = desk;
  const all = Array.from({ length: nodes }, (_, i) => i);
  const far = svg("g", { role: "presentation" });
  const lit = svg("g", { role: "group" });
  const dots = svg("g", { role: "radiogroup", "aria-label": "words: select one to see its messages" });
  const root = svg<SVGSVGElement>("svg.circle", { role: "group", "aria-label": "The graph: words are nodes, arrows are messages" }, far, lit, dots); // prettier-ignore
  const element = h("div.picture", root);
  const edges = all.flatMap((to) => all.map((from) => edge(to, from)));
  const marks = all.map(node);
  let angles = all.map((word) => angleOf(desk.place(word), nodes));
  let order = desk.state.order;
  let hovered: Edge | undefined;
  let size = { width: 0, middle: [0, 0] as Point, radius: 0 };
  let moving = 0;

  function edge(to: number, from: number): Edge {
    const [line, tip, hit] = [svg("path.shaft"), svg("path.tip"), svg("path.hit")];
    const text = svg("text.weight", {
      "text-anchor": "middle",
      "dominant-baseline": "central",
      "paint-order": "stroke",
      "aria-hidden": "true",
    });
    const group = svg("g.edge", { "data-colour": words[from].colour, "data-to": to, "data-from": from }, line, tip, text, hit);
    const drawn = { to, from, group, line, tip, hit, text };
    group.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && over(drawn));
    group.addEventListener("pointerleave", () => over(undefined));
    group.addEventListener("click", () => toggle(drawn));
    group.addEventListener("focus", () => point(drawn, true));
    return drawn;
  }

  function node(word: number): { group: SVGElement; dot: SVGElement; text: SVGElement } {
    const text = svg("text.name", { "dominant-baseline": "central", "paint-order": "stroke" });
    const dot = svg("circle.dot");
    const group = svg("g.node", { role: "radio", "data-word": word, "data-colour": words[word].colour }, svg("title", words[word].text), svg("circle.hit", { r: TOUCHED }), dot, text); // prettier-ignore
    group.addEventListener("click", () => {
      desk.choose(word);
      group.focus();
    });
    dots.append(group);
    return { group, dot, text };
  }

  const toggle = (one: Edge) => {
    if (desk.state.hidden.includes(one.to) || desk.state.hidden.includes(one.from)) return;
    desk.toggle(one.to, one.from);
  };
  const place = (one: Edge) => ({
    run: desk.run,
    id: desk.record.roles.weights,
    index: [desk.place(one.to), desk.place(one.from)],
  });
  const point = (one: Edge, stays: boolean) => (stays ? desk.pin(place(one)) : desk.point(place(one)));
  function over(one: Edge | undefined): void {
    hovered?.group.classList.remove("over");
    hovered = one;
    one?.group.classList.add("over");
    if (one) point(one, false);
    else desk.point(undefined);
  }

  root.addEventListener("keydown", (event) => {
    const group = (event.target as Element).closest<SVGElement>(".node, .edge");
    if (!group || event.ctrlKey || event.metaKey || event.altKey) return;
    if (group.classList.contains("node") ? onNode(event.key) : onEdge(event.key, group)) event.preventDefault();
  });

  function onNode(key: string): boolean {
    const { node: word, order: standing } = desk.state;
    const to = { ArrowLeft: -1, ArrowRight: 1 }[key];
    const at = to ? (desk.place(word) + to + nodes) % nodes : key === "Home" ? 0 : key === "End" ? nodes - 1 : undefined;
    if (at !== undefined) {
      desk.choose(standing[at]);
      desk.draw();
      marks[standing[at]].group.focus();
    } else if (key === "ArrowDown") arriving()[0]?.group.focus();
    else if (key === "Delete" || key === "Backspace") desk.hide(word);
    else return key === "Enter" || key === " ";
    return true;
  }

  function onEdge(key: string, group: SVGElement): boolean {
    const list = arriving();
    const at = list.findIndex((one) => one.group === group);
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
    if (by) list[at + by]?.group.focus();
    else if (key === "Enter" || key === " " || key === "Delete" || key === "Backspace")
      group.dispatchEvent(new MouseEvent("click"));
    else if (key === "Escape") {
      desk.pin(undefined);
      marks[desk.state.node].group.focus();
    } else return false;
    return true;
  }

  /** Arrows to the selected word, present or removed, in the order of the words. */
  const arriving = (): Edge[] =>
    desk.state.order
      .map((from) => edges[desk.state.node * nodes + from])
      .filter((one) => one.group.getAttribute("role") === "button");

  /** Writes a word, shortened to a width; returns its width. */
  function named(word: number, letters: number, widest: number): number {
    const text = marks[word].text as SVGTextElement;
    text.textContent = brief(words[word].text, word, letters);
    const wide = text.getComputedTextLength();
    return wide > widest && letters > 2 ? named(word, letters - 1, widest) : wide;
  }

  function fit(): void {
    const width = Math.min(LARGEST, Math.floor(element.clientWidth));
    if (!width || width === size.width) return;
    const letters = width < NARROW ? 7 : LETTERS;
    const longest = Math.max(...all.map((word) => named(word, letters, width * WIDEST)));
    const radius = Math.max(40, Math.min(width / 2 - longest - FAR - 8, TALL));
    const lowest = Math.max(...all.map((place) => Math.sin(angleOf(place, nodes))));
    const [top, below] = [radius + FAR + 22, lowest * radius + FAR + 22];
    const height = top + below;
    size = { width, middle: [width / 2, top], radius };
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.style.height = `${height}px`;
    root.style.width = `${width}px`;
    draw();
  }
  new ResizeObserver(fit).observe(element);

  function draw(): void {
    if (!size.width) return;
    if (desk.state.order !== order) glide();
    order = desk.state.order;
    paint();
    put();
  }

  /** Style and labels of arrows and words. */
  function paint(): void {
    const { node: word, sends, hidden, digits, edges: kept } = desk.state;
    const out = new Set(hidden);
    const focused = document.activeElement;
    lit.setAttribute("aria-label", `messages to ${words[word].text}`);
    for (const one of edges) {
      const there = desk.there(one.to, one.from);
      const [arrives, leaves] = [one.to === word, sends && one.from === word && one.to !== word];
      const away = arrives && !kept[one.to * nodes + one.from] && !out.has(one.to) && !out.has(one.from);
      const weight = there ? desk.weight(one.to, one.from) : 0;
      const { group } = one;
      group.setAttribute("class", ["edge", there && "there", arrives && "arrives", leaves && "leaves", away && "away", one === hovered && "over"].filter(Boolean).join(" ")); // prettier-ignore
      group.setAttribute("display", there || away ? "inline" : "none"); // as attributes, so that a saved picture has them
      one.tip.setAttribute("display", there ? "inline" : "none");
      group.style.setProperty("--weight", weight.toFixed(4));
      one.text.textContent = there && arrives && nodes <= WRITTEN ? number(weight, Math.max(digits, 1)) : "";
      const layer = arrives || leaves ? lit : far;
      if (group.parentNode !== layer && group !== focused) layer.append(group);
      if (arrives && (there || away)) {
        group.setAttribute("role", "button");
        group.setAttribute("aria-pressed", String(there));
        group.setAttribute("aria-label", `${desk.arrow(one.from, one.to)}: ${there ? `weight ${number(weight, Math.max(digits, 2))}. Enter removes it` : "no edge. Enter adds it"}`); // prettier-ignore
        group.setAttribute("tabindex", "-1");
      } else for (const name of ["role", "aria-pressed", "aria-label", "tabindex"]) group.removeAttribute(name);
    }
    const list = arriving();
    (list.find((one) => one.group === focused) ?? list[0])?.group.setAttribute("tabindex", "0");
    all.forEach((i) => {
      const { group, dot } = marks[i];
      dot.setAttribute("r", String(i === word ? DOT + 2 : DOT));
      group.setAttribute("class", out.has(i) ? "node out" : "node");
      group.setAttribute("aria-checked", String(i === word));
      group.setAttribute("tabindex", i === word ? "0" : "-1");
      group.setAttribute("aria-label", summary(i));
    });
  }

  function summary(word: number): string {
    const { digits, hidden } = desk.state;
    if (hidden.includes(word)) return `${words[word].text}: hidden`;
    const incoming = all.filter((from) => desk.there(word, from)).length;
    const at = desk.place(word) * desk.record.width;
    const output = [...desk.value("output").data.subarray(at, at + desk.record.width)].map((x) => number(x, digits)).join(", ");
    return `${words[word].text}: ${incoming} incoming message${incoming === 1 ? "" : "s"}, output ${output}`;
  }

  /** Positions of arrows and words. */
  function put(): void {
    const { middle, radius } = size;
    const points = angles.map((angle) => onCircle(middle, radius, angle));
    for (const one of edges) {
      const weight = Number(one.group.style.getPropertyValue("--weight"));
      const tip = 6 + 6 * weight;
      const { line, tip: end, middle: at } = one.to === one.from ? loop(points[one.to], angles[one.to], GAP, FAR, tip) : arrow(points[one.from], points[one.to], GAP, tip); // prettier-ignore
      one.line.setAttribute("d", line);
      one.hit.setAttribute("d", line);
      one.tip.setAttribute("d", end);
      one.text.setAttribute("x", at[0].toFixed(1));
      one.text.setAttribute("y", at[1].toFixed(1));
    }
    all.forEach((word) => {
      const [{ group, text }, angle, [x, y]] = [marks[word], angles[word], points[word]];
      group.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      const [dx, dy] = onCircle([0, 0], FAR + 6, angle);
      text.setAttribute("x", dx.toFixed(1));
      text.setAttribute("y", dy.toFixed(1));
      text.setAttribute("text-anchor", anchor(angle));
    });
  }

  function glide(): void {
    const [from, to] = [angles, all.map((word) => angleOf(desk.place(word), nodes))];
    cancelAnimationFrame(moving);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      angles = to;
      return;
    }
    const begin = performance.now();
    const step = (now: number) => {
      const share = Math.min(1, Math.max(0, (now - begin) / GLIDE));
      angles = all.map((word) => turned(from[word], to[word], 1 - (1 - share) ** 3));
      put();
      if (share < 1) moving = requestAnimationFrame(step);
    };
    moving = requestAnimationFrame(step);
  }

  return { element, draw };
}

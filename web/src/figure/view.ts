// How a page is shown as a figure: without what surrounds it, and of its parts those that are named; a button shows the others.

/** Parts of every page that a figure leaves out unless they are named. */
export const AROUND = ["title", "tools", "tabs", "sentence", "footer"];

const any = (parts: string[]): string => parts.map((name) => `[data-part~="${name}"]`).join();

/** The style sheet of a figure with these parts; all, where none is named. The line of arithmetic has a fixed height, so that the text
 * below the figure stays where it is. */
export function styleOf(parts: string[]): string {
  const [around, shown] = [any(AROUND.filter((name) => !parts.includes(name))), any(parts)];
  const rules = [
    " body { padding-bottom: 0 !important; background: var(--card); }",
    " #app { max-width: none; padding: 5px 12px 6px; }",
    " :is(header, main) { margin: 0; padding: 5px 0; }",
    " .top { padding: 0; }",
    " .explain { position: sticky; bottom: var(--below, 0px); margin: 8px -12px -6px; padding: .5rem 12px; height: 5.7rem; min-height: 0; max-height: none; border-top: 1px solid var(--line); background: var(--card); box-shadow: none; }",
    "[data-plain] .explain.idle { display: none; }",
    " .part { border: 0; padding: 0; background: none; }",
    " .unfold { margin: 8px 0 0; }",
    " .unfold button { font-size: .82rem; color: var(--quiet); }",
    " .keep { display: none; }",
    ` :is(${around}) { display: none !important; }`,
  ];
  if (shown) rules.push(`:not([data-more]) [data-part]:not(:is(${shown}), :is(${shown}) *, :has(${shown})) { display: none !important; }`); // prettier-ignore
  const narrow = [
    " #app { padding-inline: 8px; }",
    " .step { padding-left: .4rem; }",
    " .explain { height: 9rem; margin-inline: -8px; }",
  ];
  const all = (some: string[]) => some.map((rule) => `html[data-view]${rule}`).join("\n");
  return `${all(rules)}\n@media (max-width: 640px) { ${all(narrow)} }`;
}

/** Show the page as a figure from its first line on. */
export function present(parts: string[]): void {
  const root = document.documentElement;
  root.dataset.view = "figure";
  const style = document.createElement("style");
  style.textContent = styleOf(parts);
  document.head.append(style);
  if (!parts.length) return;
  const seen = new MutationObserver(() => {
    const main = document.querySelector("#app main");
    if (!main) return;
    seen.disconnect();
    main.after(document.querySelector(any(parts)) ? unfolding(root) : missing(parts));
    const numbers = () => [...main.querySelectorAll<HTMLElement>(".grid, canvas.heat")];
    const look = () => root.toggleAttribute("data-plain", !numbers().some((one) => one.offsetParent));
    new ResizeObserver(look).observe(main); // without numbers on screen there is nothing to point at
  });
  seen.observe(document, { childList: true, subtree: true });
}

/** The button that shows the other parts. */
function unfolding(root: HTMLElement): HTMLElement {
  const row = document.createElement("p");
  const button = document.createElement("button");
  row.className = "unfold";
  button.type = "button";
  const draw = () => {
    const open = "more" in root.dataset;
    button.textContent = open ? "less" : "more";
    button.title = open ? "Hide the other parts" : "Show the other parts of this page";
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => {
    if ("more" in root.dataset) delete root.dataset.more;
    else root.dataset.more = "";
    draw();
  });
  draw();
  row.append(button);
  return row;
}

function missing(parts: string[]): HTMLElement {
  const known = [...document.querySelectorAll<HTMLElement>("[data-part]")].flatMap((one) => one.dataset.part!.split(" "));
  const notice = document.createElement("p");
  notice.className = "failed";
  notice.textContent = `This page has no part “${parts.join(" ")}”. It has: ${[...new Set(known)].join(", ")}.`;
  return notice;
}

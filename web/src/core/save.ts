// Save what is on screen as a picture: texts become SVG text, canvases and drawings come along. Nothing leaves the page.
import { svg } from "./dom";

const PAINTED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-style",
  "font-weight",
  "font-family",
];
const MARGIN = 20;

/** An element as a stand-alone SVG, as large as it is on screen. */
export function picture(root: HTMLElement): SVGElement {
  root.classList.add("unrolled");
  try {
    return drawn(root);
  } finally {
    root.classList.remove("unrolled");
  }
}

function drawn(root: HTMLElement): SVGElement {
  const box = root.getBoundingClientRect();
  const out = svg("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    width: Math.ceil(root.scrollWidth) + 2 * MARGIN,
    height: Math.ceil(root.scrollHeight) + 2 * MARGIN,
    viewBox: [-MARGIN, -MARGIN, Math.ceil(root.scrollWidth) + 2 * MARGIN, Math.ceil(root.scrollHeight) + 2 * MARGIN].join(" "),
  });
  const paper = plain(getComputedStyle(document.body).backgroundColor);
  out.append(svg("rect", { x: -MARGIN, y: -MARGIN, width: "100%", height: "100%", fill: paper }));
  walk(root, out, box);
  return out;
}

function walk(element: Element, out: SVGElement, box: DOMRect): void {
  if (element instanceof HTMLElement && (element.hidden || getComputedStyle(element).display === "none")) return;
  const at = element.getBoundingClientRect();
  if (element instanceof SVGSVGElement) {
    out.append(drawing(element, at, box));
    return;
  }
  if (element instanceof HTMLCanvasElement) {
    out.append(
      svg("image", { x: at.left - box.left, y: at.top - box.top, width: at.width, height: at.height, href: element.toDataURL() }),
    );
    return;
  }
  if (element instanceof HTMLInputElement || element instanceof HTMLSelectElement || element instanceof HTMLButtonElement) return;
  background(element, at, out, box);
  for (const child of element.childNodes) {
    if (child instanceof Element) walk(child, out, box);
    else if (child.textContent?.trim()) text(child as Text, element, out, box);
  }
}

function background(element: Element, at: DOMRect, out: SVGElement, box: DOMRect): void {
  const style = getComputedStyle(element);
  if (style.backgroundColor !== "rgba(0, 0, 0, 0)") {
    out.append(
      svg("rect", {
        x: at.left - box.left,
        y: at.top - box.top,
        width: at.width,
        height: at.height,
        fill: plain(style.backgroundColor),
        rx: parseFloat(style.borderRadius) || 0,
      }),
    );
  }
  const lines = {
    left: [at.left, at.top, at.left, at.bottom],
    right: [at.right, at.top, at.right, at.bottom],
    top: [at.left, at.top, at.right, at.top],
    bottom: [at.left, at.bottom, at.right, at.bottom],
  };
  for (const [side, [x1, y1, x2, y2]] of Object.entries(lines)) {
    const width = parseFloat(style.getPropertyValue(`border-${side}-width`));
    if (width)
      out.append(
        svg("line", {
          x1: x1 - box.left,
          y1: y1 - box.top,
          x2: x2 - box.left,
          y2: y2 - box.top,
          stroke: plain(style.getPropertyValue(`border-${side}-color`)),
          "stroke-width": width,
        }),
      );
  }
}

function text(node: Text, parent: Element, out: SVGElement, box: DOMRect): void {
  const range = document.createRange();
  const style = getComputedStyle(parent);
  for (const { start, end, rect } of lines(node, range)) {
    out.append(
      svg(
        "text",
        {
          x: rect.left - box.left,
          y: rect.bottom - box.top - rect.height * 0.23,
          fill: plain(style.color),
          "font-size": style.fontSize,
          "font-family": style.fontFamily,
          "font-style": style.fontStyle,
          "font-weight": style.fontWeight,
          opacity: style.opacity,
          "xml:space": "preserve",
        },
        node.data.slice(start, end),
      ),
    );
  }
}

/** A text node as the lines in which it is set. */
function lines(node: Text, range: Range): { start: number; end: number; rect: DOMRect }[] {
  const found: { start: number; end: number; rect: DOMRect }[] = [];
  for (let i = 0; i < node.length; i++) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const rect = range.getBoundingClientRect();
    if (!rect.width) continue;
    const last = found.at(-1);
    if (last && Math.abs(last.rect.top - rect.top) < 3) last.end = i + 1;
    else found.push({ start: i, end: i + 1, rect });
  }
  return found;
}

function drawing(source: SVGSVGElement, at: DOMRect, box: DOMRect): SVGElement {
  const copy = source.cloneNode(true) as SVGSVGElement;
  const [from, to] = [source.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of PAINTED) to[i].setAttribute(name, plain(style.getPropertyValue(name)));
  });
  for (const [name, value] of Object.entries({ x: at.left - box.left, y: at.top - box.top, width: at.width, height: at.height }))
    copy.setAttribute(name, String(value));
  return copy;
}

export function save(root: HTMLElement, name: string, kind: "svg" | "png"): void {
  const source = new XMLSerializer().serializeToString(picture(root));
  if (kind === "svg") download(new Blob([source], { type: "image/svg+xml" }), `${name}.svg`);
  else paint(source, (blob) => download(blob, `${name}.png`));
}

/** An SVG as a PNG, twice as fine as the screen. */
function paint(source: string, done: (blob: Blob) => void): void {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    const scale = Math.min(2, 8000 / Math.max(image.width, image.height));
    [canvas.width, canvas.height] = [image.width * scale, image.height * scale];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob && done(blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
}

export function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A colour as every reader of SVG knows it: color(srgb 0.1 0.2 0.3 / 0.4) as rgba(26, 51, 77, 0.4). */
function plain(value: string): string {
  const mixed = value.match(/^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/);
  if (!mixed) return value;
  const [red, green, blue] = mixed.slice(1, 4).map((part) => Math.round(Number(part) * 255));
  return `rgba(${red}, ${green}, ${blue}, ${mixed[4] ?? 1})`;
}

/** Copy to the clipboard; false where the browser does not allow it, as for a file. */
export async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

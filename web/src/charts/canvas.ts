// Numbers as colours on canvases. Colours come from the style sheet, which has a light and a dark scheme.
export type Colour = [number, number, number];

/** A colour of the style sheet, which has six hex digits, or three after minification. */
export function colour(name: string): Colour {
  const hex = css(name).replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) || 0) as Colour;
}

export const css = (name: string): string => getComputedStyle(document.body).getPropertyValue(name).trim();

/** A cleared canvas at the resolution of the screen; width and height in CSS pixels. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const fine = Math.min(devicePixelRatio || 1, 2);
  const [w, h] = [Math.round(width * fine), Math.round(height * fine)];
  if (canvas.width !== w || canvas.height !== h) {
    [canvas.width, canvas.height] = [w, h];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(fine, 0, 0, fine, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A canvas with one pixel for each number. */
export function pixels(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  return canvas;
}

/** Set one pixel of an image to a colour with opacity `share`. */
export function pixel(data: Uint8ClampedArray, at: number, [red, green, blue]: Colour, share: number): void {
  data[4 * at] = red;
  data[4 * at + 1] = green;
  data[4 * at + 2] = blue;
  data[4 * at + 3] = 255 * share;
}

/** The opacity of a weight: its square root, so that small weights are visible. */
export const strength = (weight: number, most: number): number =>
  most > 0 && weight > 0 ? Math.sqrt(Math.min(weight / most, 1)) : 0;

/** Redraw when the width changes. */
export function fitted(element: HTMLElement, draw: () => void): void {
  let before = 0;
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - before) < 1) return;
    before = element.clientWidth;
    draw();
  }).observe(element);
}

/** Work in time slices, so that the page stays responsive; `step` returns whether there is more. Returns a function that stops it. */
export function sliced(step: () => boolean, shown: () => void, slice = 8): () => void {
  let over = false;
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    if (over) return;
    const until = performance.now() + slice;
    let more = true;
    while (more && performance.now() < until) more = step();
    shown();
    if (more) port2.postMessage(0);
    else port1.close();
  };
  port2.postMessage(0);
  return () => {
    over = true;
    port1.close();
  };
}

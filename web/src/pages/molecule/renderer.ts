// The interface of the two renderers: WebGL, or a 2D canvas.
import type { Palette } from "./palette";
import type { Scene } from "./scene";

export interface Renderer {
  readonly kind: "webgl" | "canvas";
  /** fine: dots of the canvas for one pixel of the page. */
  size(wide: number, high: number, fine: number): void;
  draw(scene: Scene, palette: Palette): void;
}

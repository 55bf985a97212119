// Whoever draws a scene: in space (WebGL), or flat where there is none.
import type { Paint } from "./palette";
import type { Scene } from "./scene";

export interface Painter {
  readonly kind: "solid" | "flat";
  /** fine: dots of the canvas for one pixel of the page. */
  size(wide: number, high: number, fine: number): void;
  draw(scene: Scene, paint: Paint): void;
}

// Draws a scene on a 2D canvas, far objects first, where a browser has no WebGL.
import type { Palette } from "./palette";
import type { Renderer } from "./renderer";
import { type Arrow, type Ball, type Scene, SHAFT, type Stick, TIP, type View } from "./scene";

export class CanvasRenderer implements Renderer {
  readonly kind = "canvas";
  private readonly pen: CanvasRenderingContext2D;
  private fine = 1;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly view: View,
  ) {
    this.pen = canvas.getContext("2d")!;
  }

  size(wide: number, high: number, fine: number): void {
    this.fine = fine;
    [this.canvas.width, this.canvas.height] = [Math.round(wide * this.fine), Math.round(high * this.fine)];
  }

  draw(scene: Scene, { ink }: Palette): void {
    const { pen } = this;
    pen.setTransform(this.fine, 0, 0, this.fine, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const things: [number, () => void][] = [
      ...scene.balls.map((one): [number, () => void] => [one.at[2], () => this.ball(one, ink)]),
      ...scene.sticks.map((one): [number, () => void] => [(one.from[2] + one.to[2]) / 2 - 0.05, () => this.stick(one, ink)]),
      ...scene.arrows.map((one): [number, () => void] => [(one.from[2] + one.to[2]) / 2 + 0.1, () => this.arrow(one)]),
    ];
    for (const [, draw] of things.sort(([a], [b]) => a - b)) draw();
    pen.globalAlpha = 1;
  }

  private ball({ at, radius, colour }: Ball, ink: string): void {
    const { pen } = this;
    const { x, y, near } = this.view.seen(at);
    const r = radius * this.view.scale * near;
    const shade = pen.createRadialGradient(x - r * 0.35, y - r * 0.4, r * 0.1, x, y, r);
    shade.addColorStop(0, `color-mix(in srgb, ${colour}, white 45%)`);
    shade.addColorStop(0.5, colour);
    shade.addColorStop(1, `color-mix(in srgb, ${colour}, black 30%)`);
    pen.beginPath();
    pen.arc(x, y, r, 0, 7);
    pen.fillStyle = shade;
    pen.strokeStyle = ink;
    pen.lineWidth = 1;
    pen.fill();
    pen.stroke();
  }

  private stick({ from, to, radius, colour, flat }: Stick, ink: string): void {
    const [a, b] = [this.view.seen(from), this.view.seen(to)];
    const wide = 2 * radius * this.view.scale * ((a.near + b.near) / 2);
    if (!flat) this.line(a, b, wide + 2, ink);
    this.line(a, b, wide, colour);
  }

  private arrow({ from, to, colour, faint }: Arrow): void {
    const { pen } = this;
    const [a, b] = [this.view.seen(from), this.view.seen(to)];
    const long = Math.hypot(b.x - a.x, b.y - a.y);
    const head = Math.min(TIP * this.view.scale, 0.6 * long);
    pen.globalAlpha = faint ? 0.35 : 1;
    if (long > 1) {
      const [ux, uy] = [(b.x - a.x) / long, (b.y - a.y) / long];
      const neck = { x: b.x - ux * head, y: b.y - uy * head };
      this.line(a, neck, 2 * SHAFT * this.view.scale, colour);
      pen.beginPath();
      pen.moveTo(b.x, b.y);
      pen.lineTo(neck.x - (uy * head) / 2.4, neck.y + (ux * head) / 2.4);
      pen.lineTo(neck.x + (uy * head) / 2.4, neck.y - (ux * head) / 2.4);
      pen.fillStyle = colour;
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  private line(a: { x: number; y: number }, b: { x: number; y: number }, wide: number, colour: string): void {
    const { pen } = this;
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.lineTo(b.x, b.y);
    pen.lineWidth = wide;
    pen.strokeStyle = colour;
    pen.stroke();
  }
}

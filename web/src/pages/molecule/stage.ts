// A stage: the molecule with the vectors of one model and the attention of the chosen atom. Pointer and keys rotate it.
import { h } from "../../core/dom";
import type { MoleculeDesk } from "./desk";
import { CanvasRenderer } from "./canvas_renderer";
import { pointerControls } from "./pointer";
import { relativeError, channel, row } from "./equivariance";
import { light, type Palette, palette } from "./palette";
import type { Renderer } from "./renderer";
import { arrows, ballOf, attentionSticks, place, type Scene, sticks, View } from "./scene";
import { WebglRenderer } from "./webgl_renderer";
import { matmul, transpose, rotated } from "./rotation";

const LONGEST = 1.1; // Å on the screen of the longest arrow at first
const REST = 160; // milliseconds without a change before the scene is drawn at full resolution
const PAUSE = 2000; // milliseconds between frames that count as a pause
const SLOW = 30; // milliseconds of a frame above which the resolution drops during motion
const SAME = 1e-6; // relative: arrows closer than this coincide

export class Stage {
  readonly element: HTMLElement;
  readonly view: View;
  private readonly canvas = h<HTMLCanvasElement>("canvas.scene", { "aria-hidden": "true" });
  private readonly over: HTMLCanvasElement;
  private readonly scales = new Map<string, number>();
  private renderer: Renderer;
  private palette: Palette = palette();
  private size = { wide: 0, high: 0 };
  private fine = 0;
  private drawn = -Infinity;
  private later = 0;
  private pace = 16; // running mean of the milliseconds of a frame

  constructor(
    readonly desk: MoleculeDesk,
    readonly side: "left" | "right",
  ) {
    this.view = new View(desk.reach + LONGEST);
    this.over = h<HTMLCanvasElement>("canvas.over", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "molecule",
      "aria-describedby": "keys",
      "data-side": side,
    });
    this.element = h("div.stage", this.canvas, this.over);
    this.renderer = this.createRenderer();
    this.element.dataset.renderer = this.renderer.kind;
    pointerControls(this, this.over);
    new ResizeObserver(() => this.fit()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  private createRenderer(): Renderer {
    try {
      return new WebglRenderer(this.canvas, this.view, this.desk.atoms);
    } catch {
      const fresh = h<HTMLCanvasElement>("canvas.scene", { "aria-hidden": "true" }); // a canvas with a WebGL context has no 2D context
      this.canvas.replaceWith(fresh);
      return new CanvasRenderer(fresh, this.view);
    }
  }

  get solver(): number {
    return this.desk.solver(this.desk.state[this.side]);
  }

  private recolour(): void {
    this.palette = palette();
    this.desk.refresh();
  }

  private fit(): void {
    const { width, height } = this.element.getBoundingClientRect();
    if (!width || !height || (width === this.size.wide && height === this.size.high)) return;
    this.size = { wide: width, high: height };
    this.view.size(width, height);
    this.fine = 0;
    const fine = Math.min(devicePixelRatio, 2);
    [this.over.width, this.over.height] = [Math.round(width * fine), Math.round(height * fine)];
    this.draw();
  }

  draw(): void {
    if (!this.size.wide) return;
    const [now, before] = [performance.now(), this.drawn];
    const gap = now - before;
    if (gap < PAUSE) this.pace += 0.2 * (gap - this.pace);
    const rest = Math.max(REST, 4 * this.pace); // with slow frames the next one may come late
    this.drawn = now;
    this.render(gap < rest ? Math.min(devicePixelRatio, this.pace > 2 * SLOW ? 0.5 : this.pace > SLOW ? 0.75 : 1) : undefined);
    clearTimeout(this.later);
    this.later = window.setTimeout(() => this.render(), rest);
    this.label(this.desk.positions);
  }

  /** The description for a screen reader. */
  tell(): void {
    this.over.setAttribute("aria-label", this.words());
  }

  /** Low resolution during motion; twice the resolution of the screen at rest, which antialiases. */
  render(fine = Math.min(2 * devicePixelRatio, 3)): void {
    if (fine !== this.fine) this.renderer.size(this.size.wide, this.size.high, fine);
    this.fine = fine;
    this.renderer.draw(this.scene(), this.palette);
  }

  // --- the scene -----------------------------------------------------------------------------------------------------------
  private scene(): Scene {
    const { desk, palette: colours } = this;
    const { state } = desk;
    const at = desk.positions;
    const tints = desk.kinds.map(({ colour }) => colours.atom(colour));
    const balls = desk.kinds.map((kind, i) => ({ at: place(at, i), radius: ballOf(kind), colour: tints[i] }));
    const scene: Scene = { balls, sticks: sticks(at, desk.bonds, tints), arrows: [] };
    const weights = this.weights();
    if (weights) scene.sticks.push(...attentionSticks(at, state.atom, weights, colours.weight));
    const found = this.arrows();
    if (found) {
      const { now, wanted, scale } = found;
      scene.arrows.push(...arrows(at, now, scale, colours.arrow, false));
      if (relativeError(now, wanted) > SAME) scene.arrows.push(...arrows(at, wanted, scale, colours.ghost, true));
    }
    return scene;
  }

  /** The model's vectors after rotation, and the rotated vectors from before, which an equivariant model gives. */
  arrows(): { now: Float64Array; wanted: Float64Array; scale: number } | undefined {
    const { desk } = this;
    const known = desk.known[this.solver];
    const [now, still] = [this.chosen(known.now), this.chosen(known.still)];
    if (!now || !still) return undefined;
    const carried = matmul(desk.motion, transpose(known.by)); // includes the rotation since the request
    return { now: rotated(now, carried), wanted: rotated(still, desk.motion), scale: this.scale(still) };
  }

  private chosen(answers: { forces: Float64Array; arrows?: Float64Array } | undefined): Float64Array | undefined {
    const { arrows: which } = this.desk.state;
    if (!answers || which === "none") return undefined;
    if (which === "forces") return answers.forces;
    const many = this.desk.model(this.solver).vectors;
    return answers.arrows && Number(which) < many ? channel(answers.arrows, Number(which), many) : undefined;
  }

  /** Å for one unit, the same for all geometries, so that lengths are comparable. */
  private scale(ways: Float64Array): number {
    const key = `${this.solver} ${this.desk.state.arrows}`;
    if (!this.scales.has(key)) {
      let most = 0;
      for (let i = 0; i < ways.length; i += 3) most = Math.max(most, Math.hypot(ways[i], ways[i + 1], ways[i + 2]));
      if (most > 0) this.scales.set(key, LONGEST / most);
    }
    return this.scales.get(key) ?? 0;
  }

  /** The attention weights of the chosen atom. */
  weights(): Float64Array | undefined {
    const { desk } = this;
    const { atom, layer, head } = desk.state;
    const { layers, heads } = desk.model(this.solver);
    const found = desk.known[this.solver].now?.weights;
    if (atom < 0 || !found) return undefined;
    return row(found, desk.atoms, heads, Math.min(layer, layers - 1), Math.min(head, heads - 1), atom);
  }

  /** The names of visible atoms, and a ring around the chosen one. */
  private label(at: Float64Array): void {
    const { desk, view, palette: colours } = this;
    const pen = this.over.getContext("2d")!;
    const fine = this.over.width / this.size.wide;
    pen.setTransform(fine, 0, 0, fine, 0, 0);
    pen.clearRect(0, 0, this.size.wide, this.size.high);
    const seen = desk.kinds.map((kind, i) => {
      const found = view.seen(place(at, i));
      return { ...found, z: at[3 * i + 2], r: ballOf(kind) * view.scale * found.near };
    });
    const { atom, labels } = desk.state;
    if (atom >= 0) {
      const { x, y, r } = seen[atom];
      pen.beginPath();
      pen.arc(x, y, r + 4, 0, 7);
      pen.lineWidth = 3;
      pen.strokeStyle = colours.focus;
      pen.stroke();
    }
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    seen.forEach((me, i) => {
      if (!labels && i !== atom) return;
      const covered = seen.some((other) => other.z > me.z && Math.hypot(other.x - me.x, other.y - me.y) < other.r);
      if (covered) return;
      pen.font = `600 ${Math.max(9, Math.min(15, me.r * 0.85))}px system-ui, sans-serif`;
      pen.fillStyle = light(colours.atom(desk.kinds[i].colour)) > 0.3 ? "#16171b" : "#ffffff";
      pen.fillText(labels && me.r > 9 ? desk.names[i] : desk.kinds[i].symbol, me.x, me.y + 0.5);
    });
  }

  private words(): string {
    const { desk } = this;
    const [by, known] = [desk.angles.map((angle) => Math.round(angle)), desk.known[this.solver]];
    const energy = known.now ? `, energy ${known.now.energy.toPrecision(6)} ${desk.model(this.solver).unit}` : "";
    const chosen = desk.state.atom >= 0 ? `, ${desk.names[desk.state.atom]} is chosen` : "";
    return `${desk.record.title}, ${desk.model(this.solver).title}: ${desk.atoms} atoms, rotated by ${by[0]}, ${by[1]} and ${by[2]} degrees${desk.state.mirror ? ", mirrored" : ""}${energy}${chosen}`;
  }

  /** The atom at a point of the screen, the nearest to the viewer; -1 where there is none. */
  atomAt(x: number, y: number, reach = 4): number {
    const at = this.desk.positions;
    let [best, nearest] = [-1, -Infinity];
    this.desk.kinds.forEach((kind, i) => {
      const found = this.view.seen(place(at, i));
      const hit = Math.hypot(found.x - x, found.y - y) < ballOf(kind) * this.view.scale * found.near + reach;
      if (hit && at[3 * i + 2] > nearest) [best, nearest] = [i, at[3 * i + 2]];
    });
    return best;
  }
}

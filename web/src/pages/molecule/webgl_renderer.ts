// Draws a scene with WebGL: one draw call for all balls, one for all sticks, one for all arrow heads. Fast enough in software.
import {
  BackSide,
  type BufferGeometry,
  Color,
  ColorManagement,
  CylinderGeometry,
  FrontSide,
  InstancedMesh,
  Matrix4,
  PerspectiveCamera,
  PlaneGeometry,
  Quaternion,
  Scene as Room,
  ShaderMaterial,
  Vector2,
  Vector3,
  WebGLRenderer,
} from "three";
import type { Palette } from "./palette";
import type { Renderer } from "./renderer";
import { type Scene, SHAFT, TIP, type View } from "./scene";
import type { Three } from "./rotation";

const LINE = 0.026; // Å, width of an outline
const MANY = 30; // balls, beyond which sticks have fewer corners
const SUN = "vec3(-0.34, 0.57, 0.75)";
const UP = new Vector3(0, 1, 0);
// Little work for each vertex and fragment, for machines without a GPU.
const SHARED = `
uniform vec3 ink;
uniform vec3 paper;
uniform vec2 depth;
vec3 faded(vec3 colour, float z) {
  return mix(colour, paper, 0.38 * clamp((-z - depth.x) / (depth.y - depth.x), 0.0, 1.0));
}
vec3 shone(vec3 colour, vec3 n) {
  float sun = max(dot(n, ${SUN}), 0.0);
  return colour * (0.6 + 0.12 * n.y + 0.42 * sun) + vec3(0.4 * pow(sun, 24.0));
}`;
const STICKS = {
  corners: `
varying vec3 shade;
uniform float lit;
${SHARED}
void main() {
  vec4 at = modelViewMatrix * instanceMatrix * vec4(position, 1.0);
  shade = faded(mix(ink, shone(instanceColor, normalize(mat3(instanceMatrix) * normal)), lit), at.z);
  gl_Position = projectionMatrix * at;
}`,
  dots: `
varying vec3 shade;
uniform float opacity;
void main() {
  gl_FragColor = vec4(shade, opacity);
}`,
};
// A ball is a billboard: every fragment computes its own depth and normal.
const BALLS = {
  corners: `
varying vec3 tint;
varying vec2 place;
varying vec3 middle;
varying float radius;
uniform float line;
void main() {
  radius = instanceMatrix[0][0];
  place = position.xy * (1.0 + line / radius);
  middle = (modelViewMatrix * instanceMatrix * vec4(0.0, 0.0, 0.0, 1.0)).xyz;
  tint = instanceColor;
  gl_Position = projectionMatrix * vec4(middle.xy + radius * place, middle.z, 1.0);
}`,
  dots: `
varying vec3 tint;
varying vec2 place;
varying vec3 middle;
varying float radius;
uniform float line;
uniform mat4 projectionMatrix;
${SHARED}
void main() {
  float far = dot(place, place);
  float edge = 1.0 + line / radius;
  if (far > edge * edge) discard;
  vec3 n = vec3(place, sqrt(max(1.0 - far, 0.0)));
  gl_FragColor = vec4(faded(far > 1.0 ? ink : shone(tint, n), middle.z), 1.0);
  vec4 seen = projectionMatrix * vec4(middle.xy, middle.z + radius * n.z, 1.0);
  gl_FragDepth = 0.5 + 0.5 * seen.z / seen.w;
}`,
};

/** Instances of one geometry, each with its own position, size and colour; `skin`: their back faces, enlarged, as outlines. */
class Many {
  private mesh?: InstancedMesh;
  private shell?: InstancedMesh;
  private most = 0;
  private count = 0;
  private readonly matrix = new Matrix4();
  private readonly colour = new Color();
  private readonly at = new Vector3();
  private readonly scale = new Vector3();

  constructor(
    private readonly room: Room,
    private readonly geometry: BufferGeometry,
    private readonly material: ShaderMaterial,
    private readonly skin?: ShaderMaterial,
  ) {}

  begin(count: number): void {
    if (count > this.most) this.grow(Math.max(16, 2 * count));
    this.count = 0;
  }

  put(at: Three, rotation: Quaternion, [x, y, z]: Three, colour: string): void {
    if (!this.mesh) return;
    this.at.set(...at);
    this.mesh.setMatrixAt(this.count, this.matrix.compose(this.at, rotation, this.scale.set(x, y, z)));
    this.mesh.setColorAt(this.count, this.colour.set(colour));
    this.shell?.setMatrixAt(this.count, this.matrix.compose(this.at, rotation, this.scale.set(x + LINE, y, z + LINE)));
    this.count++;
  }

  end(): void {
    for (const mesh of [this.mesh, this.shell]) {
      if (!mesh) continue;
      mesh.count = this.count;
      mesh.instanceMatrix.needsUpdate = true;
      if (mesh.instanceColor) mesh.instanceColor.needsUpdate = true;
    }
  }

  private grow(most: number): void {
    for (const old of [this.mesh, this.shell]) {
      if (old) this.room.remove(old);
      old?.dispose();
    }
    const make = (material: ShaderMaterial) => {
      const mesh = new InstancedMesh(this.geometry, material, most);
      mesh.setColorAt(0, this.colour); // all have colours, so that one program serves all
      mesh.frustumCulled = false;
      this.room.add(mesh);
      return mesh;
    };
    this.most = most;
    this.mesh = make(this.material);
    if (this.skin) this.shell = make(this.skin);
  }
}

export class WebglRenderer implements Renderer {
  readonly kind = "webgl";
  private readonly renderer: WebGLRenderer;
  private readonly room = new Room();
  private readonly camera: PerspectiveCamera;
  private readonly groups: Record<"balls" | "sticks" | "bands" | "shafts" | "tips" | "faintShafts" | "faintTips", Many>;
  private readonly shared = { ink: { value: new Color() }, paper: { value: new Color() }, depth: { value: new Vector2() } };
  private readonly quaternion = new Quaternion();
  private readonly way = new Vector3();

  /** many: how many balls there will be; small ones need fewer corners. Throws where there is no WebGL. */
  constructor(
    canvas: HTMLCanvasElement,
    private readonly view: View,
    many = 0,
  ) {
    ColorManagement.enabled = false;
    const context = canvas.getContext("webgl2", { antialias: false, alpha: true });
    if (!context) throw new Error("there is no WebGL");
    this.renderer = new WebGLRenderer({ canvas, context });
    this.camera = new PerspectiveCamera(30, 1, view.distance / 10, view.distance * 3);
    this.camera.position.set(0, 0, view.distance);
    this.shared.depth.value.set(view.distance - 0.3 * view.reach, view.distance + view.reach);
    const corners = many > MANY ? 6 : 9;
    const stick = new CylinderGeometry(1, 1, 1, corners, 1, true);
    const tip = new CylinderGeometry(0, 1, 1, corners, 1, false);
    const [full, faint, skin] = [this.material(STICKS, 1, 1), this.material(STICKS, 1, 0.5), this.material(STICKS, 0, 1)];
    const group = (shape: BufferGeometry, look: ShaderMaterial, outline?: ShaderMaterial) => new Many(this.room, shape, look, outline); // prettier-ignore
    this.groups = {
      balls: group(new PlaneGeometry(2, 2), this.material(BALLS, 1, 1)),
      sticks: group(stick, full, skin),
      bands: group(stick, full),
      shafts: group(stick, full),
      tips: group(tip, full),
      faintShafts: group(stick, faint),
      faintTips: group(tip, faint),
    };
  }

  private material({ corners, dots }: typeof STICKS, lit: number, opacity: number): ShaderMaterial {
    return new ShaderMaterial({
      vertexShader: corners,
      fragmentShader: dots,
      side: lit ? FrontSide : BackSide,
      transparent: opacity < 1,
      depthWrite: opacity === 1,
      uniforms: { ...this.shared, line: { value: LINE }, lit: { value: lit }, opacity: { value: opacity } },
    });
  }

  size(wide: number, high: number, fine: number): void {
    this.renderer.setPixelRatio(fine);
    this.renderer.setSize(wide, high, false);
    this.camera.aspect = wide / high;
    this.camera.fov = (this.view.upright * 180) / Math.PI;
    this.camera.updateProjectionMatrix();
  }

  draw(scene: Scene, { ink, paper }: Palette): void {
    this.shared.ink.value.set(ink);
    this.shared.paper.value.set(paper);
    const { balls, sticks, bands, shafts, tips, faintShafts, faintTips } = this.groups;
    balls.begin(scene.balls.length);
    for (const { at, radius, colour } of scene.balls) balls.put(at, this.quaternion.identity(), [radius, radius, radius], colour);
    for (const group of [sticks, bands]) group.begin(scene.sticks.length);
    for (const { from, to, radius, colour, flat } of scene.sticks) this.along(flat ? bands : sticks, from, to, radius, colour);
    for (const group of [shafts, tips, faintShafts, faintTips]) group.begin(scene.arrows.length);
    for (const { from, to, colour, faint } of scene.arrows) {
      const long = Math.hypot(to[0] - from[0], to[1] - from[1], to[2] - from[2]);
      const head = Math.min(TIP, 0.6 * long);
      const neck = [0, 1, 2].map((k) => to[k] - ((to[k] - from[k]) * head) / long) as unknown as Three;
      this.along(faint ? faintShafts : shafts, from, neck, SHAFT, colour);
      this.along(faint ? faintTips : tips, neck, to, head / 2.4, colour);
    }
    for (const group of Object.values(this.groups)) group.end();
    this.renderer.render(this.room, this.camera);
  }

  private along(group: Many, from: Three, to: Three, radius: number, colour: string): void {
    const long = Math.hypot(to[0] - from[0], to[1] - from[1], to[2] - from[2]);
    if (!(long > 0)) return;
    this.way.set((to[0] - from[0]) / long, (to[1] - from[1]) / long, (to[2] - from[2]) / long);
    const middle: Three = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2, (from[2] + to[2]) / 2];
    group.put(middle, this.quaternion.setFromUnitVectors(UP, this.way), [radius, long, radius], colour);
  }
}

// The part of three.js that this page draws with.
declare module "three" {
  export class Color {
    constructor(colour?: string | number);
    set(colour: string | number): this;
  }
  export class Vector3 {
    constructor(x?: number, y?: number, z?: number);
    set(x: number, y: number, z: number): this;
  }
  export class Quaternion {
    setFromUnitVectors(from: Vector3, to: Vector3): this;
    identity(): this;
  }
  export class Matrix4 {
    compose(place: Vector3, rotation: Quaternion, scale: Vector3): this;
  }
  export class Object3D {
    position: Vector3;
    visible: boolean;
    frustumCulled: boolean;
    renderOrder: number;
    add(...others: Object3D[]): this;
    remove(...others: Object3D[]): this;
  }
  export class Scene extends Object3D {}
  export class PerspectiveCamera extends Object3D {
    constructor(angle: number, aspect: number, near: number, far: number);
    fov: number;
    aspect: number;
    near: number;
    far: number;
    updateProjectionMatrix(): void;
  }
  export class BufferGeometry {
    translate(x: number, y: number, z: number): this;
    dispose(): void;
  }
  export class PlaneGeometry extends BufferGeometry {
    constructor(wide: number, high: number);
  }
  export class CylinderGeometry extends BufferGeometry {
    constructor(top: number, bottom: number, height: number, around: number, down: number, open: boolean);
  }
  export class Material {
    dispose(): void;
  }
  export const ColorManagement: { enabled: boolean };
  export class Vector2 {
    set(x: number, y: number): this;
  }
  export class ShaderMaterial extends Material {
    constructor(look: {
      vertexShader: string;
      fragmentShader: string;
      side: number;
      transparent: boolean;
      depthWrite: boolean;
      uniforms: Record<string, { value: unknown }>;
    });
  }
  export const BackSide: number;
  export const FrontSide: number;
  export class InstancedMesh extends Object3D {
    constructor(geometry: BufferGeometry, material: Material, most: number);
    count: number;
    instanceMatrix: { needsUpdate: boolean };
    instanceColor: { needsUpdate: boolean } | null;
    setMatrixAt(i: number, matrix: Matrix4): void;
    setColorAt(i: number, colour: Color): void;
    dispose(): void;
  }
  export class WebGLRenderer {
    constructor(options: { canvas: HTMLCanvasElement; context: WebGL2RenderingContext });
    setPixelRatio(ratio: number): void;
    setSize(wide: number, high: number, style?: boolean): void;
    render(scene: Scene, camera: PerspectiveCamera): void;
    dispose(): void;
  }
}

// Rotations in float64: a rotation is a unit quaternion [w, x, y, z]; points are rows, so they rotate by p @ Rᵀ.
export type Rotation = readonly [number, number, number, number];
export type Three = readonly [number, number, number];
/** Nine numbers, row by row. */
export type Matrix = readonly number[];

export const IDENTITY: Rotation = [1, 0, 0, 0];
export const DEGREE = Math.PI / 180;
/** The reflection that swaps left and right. */
export const MIRROR: Matrix = [-1, 0, 0, 0, 1, 0, 0, 0, 1];

export function rotationAbout(axis: Three, radians: number): Rotation {
  const size = Math.hypot(...axis) || 1;
  const [sine, cosine] = [Math.sin(radians / 2) / size, Math.cos(radians / 2)];
  return [cosine, axis[0] * sine, axis[1] * sine, axis[2] * sine];
}

/** First b, then a. */
export function compose(a: Rotation, b: Rotation): Rotation {
  const [aw, ax, ay, az] = a;
  const [bw, bx, by, bz] = b;
  return unit([
    aw * bw - ax * bx - ay * by - az * bz,
    aw * bx + ax * bw + ay * bz - az * by,
    aw * by - ax * bz + ay * bw + az * bx,
    aw * bz + ax * by - ay * bx + az * bw,
  ]);
}

export function unit(rotation: Rotation): Rotation {
  const size = Math.hypot(...rotation);
  if (!(size > 0)) return IDENTITY;
  return rotation.map((part) => part / size) as unknown as Rotation;
}

export function matrix([w, x, y, z]: Rotation): Matrix {
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
    2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
    2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
  ]; // prettier-ignore
}

export function matmul(a: Matrix, b: Matrix): Matrix {
  return [0, 1, 2].flatMap((i) => [0, 1, 2].map((j) => a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j]));
}

export const transpose = (m: Matrix): Matrix => [m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]];

/** Every row of three, rotated: rows @ mᵀ. */
export function rotated(rows: Float64Array, m: Matrix): Float64Array {
  const out = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i += 3) {
    const [x, y, z] = [rows[i], rows[i + 1], rows[i + 2]];
    for (let k = 0; k < 3; k++) out[i + k] = m[3 * k] * x + m[3 * k + 1] * y + m[3 * k + 2] * z;
  }
  return out;
}

/** The rotation angle, 0 to 180 degrees. */
export const degrees = ([w, x, y, z]: Rotation): number => (2 * Math.atan2(Math.hypot(x, y, z), Math.abs(w))) / DEGREE;

/** Degrees about the vertical axis, then the horizontal axis, then the line of sight: R = R_y R_x R_z. */
export function angles(rotation: Rotation): Three {
  const m = matrix(rotation);
  const level = Math.hypot(m[3], m[4]);
  const tilt = Math.atan2(-m[5], level); // asin would lose half of the digits near 90 degrees
  const upright = level > 1e-7;
  const [side, roll] = upright ? [Math.atan2(m[2], m[8]), Math.atan2(m[3], m[4])] : [Math.atan2(-m[6], m[0]), 0];
  return [side / DEGREE, tilt / DEGREE, roll / DEGREE];
}

export function ofAngles([side, tilt, roll]: Three): Rotation {
  const parts = [
    rotationAbout([0, 1, 0], side * DEGREE),
    rotationAbout([1, 0, 0], tilt * DEGREE),
    rotationAbout([0, 0, 1], roll * DEGREE),
  ];
  return compose(compose(parts[0], parts[1]), parts[2]);
}

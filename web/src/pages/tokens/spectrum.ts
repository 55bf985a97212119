// The log energy of a mel band from samples, step by step: window, Fourier transform, triangular filter, logarithm.
import type { Bands, SoundCut } from "../../core/contract";
import { unpack } from "../../core/tensor";

/** One frequency of a band. */
export interface Term {
  hertz: number;
  energy: number; // squared magnitude of the Fourier transform
  weight: number; // of the band's triangular filter
}

/** Weights of a Hann window: (1 − cos(2πt / length)) / 2. */
export const hann = (length: number): Float64Array =>
  Float64Array.from({ length }, (_, t) => 0.5 - 0.5 * Math.cos((2 * Math.PI * t) / length));

/** |Σ window(t) · sample(t) · e^(−2πi·k·t / length)|² of frequency number k. */
export function energy(samples: ArrayLike<number>, k: number): number {
  const length = samples.length;
  const window = hann(length);
  let [real, imaginary] = [0, 0];
  for (let t = 0; t < length; t++) {
    const angle = (2 * Math.PI * ((k * t) % length)) / length;
    real += window[t] * samples[t] * Math.cos(angle);
    imaginary -= window[t] * samples[t] * Math.sin(angle);
  }
  return real * real + imaginary * imaginary;
}

/** The frequencies of a band in a window's samples. */
export function terms(samples: ArrayLike<number>, bands: Bands, band: number): Term[] {
  const before = bands.counts.slice(0, band).reduce((sum, count) => sum + count, 0);
  const weights = unpack(bands.weights).data;
  return Array.from({ length: bands.counts[band] }, (_, i) => {
    const k = bands.begins[band] + i;
    return { hertz: k * bands.step, energy: energy(samples, k), weight: weights[before + i] };
  });
}

/** The logarithm of a band's energy, at least that of the floor. */
export const logEnergy = (found: Term[], floor: number): number =>
  Math.log(
    Math.max(
      floor,
      found.reduce((sum, { energy, weight }) => sum + energy * weight, 0),
    ),
  );

/** The lowest and the highest frequency of a band. */
export const range = ({ begins, counts, step }: Bands, band: number): [number, number] => [
  begins[band] * step,
  (begins[band] + counts[band] - 1) * step,
];

/** The samples of a token: the first, and the one after the last. */
export function reads(cut: SoundCut, way: "frames" | "mel" | "patches", token: number): [number, number] {
  if (way === "frames") return [token * cut.window, (token + 1) * cut.window];
  if (way === "mel") return [token * cut.hop, token * cut.hop + cut.window];
  const [windows, bands] = cut.patch!;
  const first = Math.floor(token / (cut.mel.shape[1] / bands)) * windows;
  return [first * cut.hop, (first + windows - 1) * cut.hop + cut.window];
}

/** The number of tokens of a tokenization. */
export const count = (cut: SoundCut, way: "frames" | "mel" | "patches"): number =>
  way === "frames" ? cut.frame_positions.shape[0] : way === "mel" ? cut.mel.shape[0] : (cut.patch_positions?.shape[0] ?? 0);

/** The numbers per token. */
export const numbers = (cut: SoundCut, way: "frames" | "mel" | "patches"): number =>
  way === "frames" ? cut.window : way === "mel" ? cut.mel.shape[1] : (cut.patch ?? []).reduce((a, b) => a * b, 1);

/** The token nearest to a time; of patches, the one of the lowest bands. */
export function nearest(cut: SoundCut, way: "frames" | "mel" | "patches", seconds: number): number {
  const at = way === "frames" ? cut.frame_positions : way === "mel" ? cut.mel_positions : cut.patch_positions!;
  const [many, axes] = at.shape;
  const { data } = unpack(at);
  let best = 0;
  for (let i = 1; i < many; i++) if (Math.abs(data[i * axes] - seconds) < Math.abs(data[best * axes] - seconds) - 1e-12) best = i;
  return best;
}

/** The window and band of a patch's number, which are ordered by window, then band. */
export function inPatch(cut: SoundCut, token: number, number: number): { window: number; band: number } {
  const [windows, bands] = cut.patch!;
  const across = cut.mel.shape[1] / bands;
  return {
    window: Math.floor(token / across) * windows + Math.floor(number / bands),
    band: (token % across) * bands + (number % bands),
  };
}

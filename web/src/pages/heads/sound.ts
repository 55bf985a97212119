// The sound inside the page: its samples, its envelope, and a player that makes no request.
import type { AudioClip } from "../../core/contract";
import { bytesOf } from "../../core/tensor";

const LARGEST = 32767; // of 16 bits

/** Samples in [-1, 1]. */
export function decodeSamples({ samples }: AudioClip): Float32Array<ArrayBuffer> {
  const bytes = bytesOf(samples);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from({ length: bytes.length >> 1 }, (_, i) => view.getInt16(2 * i, true) / LARGEST);
}

/** The lowest and the highest sample of each of `count` equal intervals between two samples. */
export function envelope(samples: Float32Array, from: number, to: number, count: number): [number, number][] {
  return Array.from({ length: count }, (_, i) => {
    const [begin, end] = [i, i + 1].map((at) => Math.floor(from + ((to - from) * at) / count));
    let [low, high] = [0, 0];
    for (let at = Math.max(0, begin); at < Math.min(samples.length, Math.max(end, begin + 1)); at++) {
      low = Math.min(low, samples[at]);
      high = Math.max(high, samples[at]);
    }
    return [low, high];
  });
}

export interface Player {
  play(from: number, to: number): void; // seconds
  stop(): void;
}

/** tell: called with the playback time in seconds, and with undefined at the end. */
export function player(heard: AudioClip, samples: Float32Array<ArrayBuffer>, tell: (at: number | undefined) => void): Player {
  let [context, source]: [AudioContext | undefined, AudioBufferSourceNode | undefined] = [undefined, undefined];
  let frame = 0;
  const stop = () => {
    cancelAnimationFrame(frame);
    if (source) source.onended = null;
    source?.stop();
    source = undefined;
    tell(undefined);
  };
  return {
    stop,
    play(from, to) {
      stop();
      context ??= new AudioContext();
      void context.resume();
      const buffer = context.createBuffer(1, Math.max(1, samples.length), heard.rate);
      buffer.copyToChannel(samples, 0);
      source = context.createBufferSource();
      source.buffer = buffer;
      source.connect(context.destination);
      source.onended = stop;
      source.start(0, from, to - from);
      const began = context.currentTime;
      const follow = () => {
        tell(Math.min(to, from + context!.currentTime - began));
        frame = requestAnimationFrame(follow);
      };
      follow();
    },
  };
}

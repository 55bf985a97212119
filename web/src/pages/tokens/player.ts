// Plays a sound from its samples, without a request or a file.
export interface Playback {
  begin: number; // first sample
  samples: number; // how many are in the buffer
  rate: number; // samples per second of the playback
  loop: boolean;
  state: string; // of the audio context
}

/** Browsers take buffers of 8000 to 96000 samples a second: others are played more slowly. */
export function speed(rate: number): { buffer: number; by: number } {
  const by = rate < 8000 ? Math.ceil(8000 / rate) : 1;
  return { buffer: rate * by, by: 1 / by };
}

export class Player {
  last: Playback | undefined; // what was played last
  private context: AudioContext | undefined;
  private source: AudioBufferSourceNode | undefined;
  private started = 0;

  /** samples in [-1, 1]; moved: called with the position in seconds at each animation frame; undefined at the end. */
  constructor(
    private readonly samples: Float32Array,
    private readonly rate: number,
    private readonly moved: (seconds: number | undefined) => void,
  ) {}

  get playing(): boolean {
    return this.source !== undefined;
  }

  /** Plays samples from begin to end, once or in a loop. */
  async play(begin: number, end: number, loop = false): Promise<void> {
    this.stop();
    this.context ??= new AudioContext();
    const context = this.context;
    const slice = this.samples.slice(begin, end);
    const { buffer: wanted, by } = speed(this.rate);
    const buffer = context.createBuffer(1, slice.length, wanted);
    buffer.copyToChannel(slice, 0);
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.loop = loop;
    source.playbackRate.value = by;
    source.connect(context.destination);
    source.onended = () => this.source === source && this.stop();
    this.source = source;
    await context.resume();
    if (this.source !== source) return; // stopped while it waited
    this.last = { begin, samples: buffer.length, rate: this.rate, loop, state: context.state };
    this.started = context.currentTime;
    source.start();
    this.follow(source, begin / this.rate, slice.length / this.rate, loop);
  }

  stop(): void {
    const source = this.source;
    this.source = undefined;
    if (source) {
      source.onended = null;
      try {
        source.stop();
      } catch {
        // it had not started
      }
      source.disconnect();
    }
    this.moved(undefined);
  }

  private follow(source: AudioBufferSourceNode, from: number, lasts: number, loop: boolean): void {
    const step = () => {
      if (this.source !== source) return;
      const gone = Math.max(0, this.context!.currentTime - this.started);
      this.moved(from + (loop ? gone % lasts : Math.min(gone, lasts)));
      requestAnimationFrame(step);
    };
    step();
  }
}

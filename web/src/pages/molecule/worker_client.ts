// Runs the models in a worker, so that rotation stays fluid, or on the main thread where there is none. A waiting request is replaced
// by a newer one of its kind.
import type { Molecule } from "../../core/contract";
import { type Answers, type ModelFunction, type Question, solver } from "./solver";
import Beside from "./worker?worker&inline";

const REST = 60; // milliseconds at most

type Done = (question: Question, answers: Answers) => void;

export class ModelRunner {
  private readonly waiting = new Map<string, Question>();
  private working: Question | undefined;
  private resting = false;
  private begun = 0;
  private worker: Worker | undefined;
  private readonly here: ModelFunction[] = [];

  constructor(
    private readonly record: Molecule,
    private readonly done: Done,
    private readonly failed: (why: string) => void,
  ) {
    try {
      this.worker = new Beside();
      this.worker.onmessage = ({ data }: MessageEvent<Answers | { failed: string }>) => this.answered(data);
      this.worker.onerror = (event) => {
        event.preventDefault();
        this.alone();
      };
      this.worker.postMessage(record.solvers);
    } catch {
      this.worker = undefined;
    }
  }

  ask(question: Question): void {
    this.waiting.set(`${question.key} ${question.solver}`, question);
    this.next();
  }

  /** Whether no request is waiting. */
  get idle(): boolean {
    return !this.working && this.waiting.size === 0;
  }

  private next(): void {
    if (this.working || this.resting) return;
    const [first] = this.waiting;
    if (!first) return;
    this.waiting.delete(first[0]);
    this.working = first[1];
    this.begun = performance.now();
    if (this.worker) this.worker.postMessage(this.working);
    else setTimeout(() => this.answered(this.attempt(first[1])));
  }

  private answered(found: Answers | { failed: string }): void {
    const question = this.working!;
    this.working = undefined;
    if ("failed" in found) this.failed(found.failed);
    else this.done(question, found);
    this.resting = true; // as long as it worked: drawing needs the processor too
    setTimeout(() => {
      this.resting = false;
      this.next();
    }, Math.min(performance.now() - this.begun, REST)); // prettier-ignore
  }

  private attempt({ solver: which, positions }: Question): Answers | { failed: string } {
    try {
      return (this.here[which] ??= solver(this.record.solvers[which]))(positions);
    } catch (error) {
      return { failed: error instanceof Error ? error.message : String(error) };
    }
  }

  /** No worker is available: run on the main thread. */
  private alone(): void {
    this.worker?.terminate();
    this.worker = undefined;
    const again = this.working;
    this.working = undefined;
    if (again) this.ask(again);
  }
}

// The desk of the molecule page: its state, the positions of the atoms, and the outputs of the models.
import type { Molecule, Solver, Species } from "../../core/contract";
import { Store } from "../../core/store";
import { unpack } from "../../core/tensor";
import { bonds, place } from "./scene";
import { ModelRunner } from "./worker_client";
import type { Answers, Question } from "./solver";
import { type MoleculeState, near, stateOf } from "./state";
import { compose, angles, degrees, matrix, type Matrix, MIRROR, IDENTITY, type Three, matmul, transpose, type Rotation, rotated } from "./rotation"; // prettier-ignore

/** still: outputs before rotation, with atoms moved; now: after rotation. Both are of the same geometry. */
export interface ModelState {
  still?: Answers;
  now?: Answers;
  by: Matrix; // the transformation between the two
  degrees: number;
  mirrored: boolean;
  of: { still: string; now: string }; // the geometry of the two outputs, and the geometry and motion of the second
}

const SELDOM = 150; // milliseconds between two drawings of a table

export class MoleculeDesk extends Store<MoleculeState> {
  readonly kinds: Species[]; // of each atom
  readonly names: string[]; // C1, C2, H1
  readonly radii: number[];
  readonly solvers: ModelRunner;
  readonly known: ModelState[];
  announcement = "";
  failure = "";
  private readonly frames: Float64Array;
  private readonly parts: (() => void)[] = [];
  private readonly heard: ((solver: number) => void)[] = [];
  private stills: string[];
  private drawing = 0;

  constructor(readonly record: Molecule) {
    super(stateOf(record));
    this.frames = unpack(record.frames).data;
    const elements = new Map(record.elements.map((one) => [one.number, one]));
    this.kinds = record.atoms.map((number) => elements.get(number)!);
    const times = new Map<string, number>();
    this.names = this.kinds.map(({ symbol }) => {
      times.set(symbol, (times.get(symbol) ?? 0) + 1);
      return `${symbol}${times.get(symbol)}`;
    });
    this.radii = this.kinds.map(({ radius }) => radius);
    this.known = record.solvers.map(() => ({ by: matrix(IDENTITY), degrees: 0, mirrored: false, of: { still: "", now: "" } })); // prettier-ignore
    this.stills = record.solvers.map(() => "");
    this.solvers = new ModelRunner(
      record,
      (question, answers) => this.answered(question, answers),
      (why) => this.fail(why),
    );
    this.ask();
  }

  // --- positions of atoms --------------------------------------------------------------------------------------------------
  get atoms(): number {
    return this.kinds.length;
  }

  /** Positions [N·3] of the file with moved atoms, before rotation. */
  get base(): Float64Array {
    const { frame, moved } = this.state;
    const size = 3 * this.atoms;
    const out = this.frames.slice(frame * size, (frame + 1) * size);
    for (const [atom, by] of Object.entries(moved)) for (let k = 0; k < 3; k++) out[3 * Number(atom) + k] += by[k];
    return out;
  }

  /** The mirror, then the rotation. */
  get motion(): Matrix {
    const by = matrix(this.state.rotation);
    return this.state.mirror ? matmul(by, MIRROR) : by;
  }

  /** Positions after rotation, the input of the models. */
  get positions(): Float64Array {
    return rotated(this.base, this.motion);
  }

  /** The position of an atom after rotation. */
  seen(atom: number): Three {
    return place(this.positions, atom);
  }

  /** Degrees about the vertical axis, the horizontal axis, and the line of sight. */
  get angles(): Three {
    return angles(this.state.rotation);
  }

  get bonds(): [number, number][] {
    return bonds(this.base, this.radii);
  }

  /** The largest distance of an atom from the centre, over all frames. */
  get reach(): number {
    let most = 0;
    for (let i = 0; i < this.frames.length; i += 3) most = Math.max(most, Math.hypot(this.frames[i], this.frames[i + 1], this.frames[i + 2])); // prettier-ignore
    return most;
  }

  solver(name: string): number {
    return this.record.solvers.findIndex((one) => one.name === name);
  }

  model(index: number): Solver {
    return this.record.solvers[index];
  }

  // --- outputs of the models -----------------------------------------------------------------------------------------------
  private ask(): void {
    const { frame, moved } = this.state;
    const still = JSON.stringify([frame, moved]);
    const [base, positions] = [this.base, this.positions];
    this.record.solvers.forEach((_, solver) => {
      if (this.stills[solver] !== still) {
        this.stills[solver] = still;
        this.solvers.ask({ solver, key: "still", positions: base, about: this.asked(still) });
      }
      this.solvers.ask({ solver, key: "now", positions, about: this.asked(still) });
    });
  }

  private asked(still: string): Question["about"] {
    return { still, by: this.motion, degrees: degrees(this.state.rotation), mirrored: this.state.mirror };
  }

  private answered({ solver, key, about }: Question, answers: Answers): void {
    if (about.still !== this.stills[solver]) return; // of an earlier geometry
    const known = this.known[solver];
    if (key === "still") {
      known.still = answers;
      known.of.still = about.still;
    } else {
      Object.assign(known, { now: answers, by: about.by, degrees: about.degrees, mirrored: about.mirrored });
      known.of.now = JSON.stringify([about.still, about.by]);
    }
    if (known.still && known.now) for (const one of this.heard) one(solver);
    this.failure = "";
    this.refresh();
  }

  private fail(why: string): void {
    this.failure = `The models could not be run (${why}).`;
    this.refresh();
  }

  /** Resolves once every model has answered for the atoms as they are now, or has failed. */
  async settled(): Promise<void> {
    const { frame, moved } = this.state;
    const still = JSON.stringify([frame, moved]);
    const now = JSON.stringify([still, this.motion]);
    if (this.failure || this.known.every(({ of }) => of.still === still && of.now === now)) return;
    await new Promise((answer) => setTimeout(answer, SELDOM));
    return this.settled();
  }

  /** Call a listener whenever a model has new outputs. */
  hear(one: (solver: number) => void): void {
    this.heard.push(one);
  }

  // --- changes -------------------------------------------------------------------------------------------------------------
  /** announcement: text for a screen reader. */
  change(change: Partial<MoleculeState>, announcement = "", step = true): void {
    this.announcement = announcement;
    this.set(change, { step });
  }

  protected override changed(change: Partial<MoleculeState>): void {
    if ("rotation" in change || "mirror" in change || "frame" in change || "moved" in change) this.ask();
    this.refresh();
  }

  /** Rotate further, about axes of the screen. */
  rotate(by: Rotation, step = true): void {
    const rotation = compose(by, this.state.rotation);
    this.change({ rotation }, "", step);
  }

  /** -1: none. */
  choose(atom: number): void {
    const now = atom === this.state.atom ? -1 : atom;
    this.change({ atom: now }, now < 0 ? "No atom is chosen." : `${this.names[now]}, ${this.kinds[now].name}, is chosen.`);
  }

  /** Stops the continuous rotation. */
  rest: () => void = () => {};

  /** Move an atom by a vector in Å, in screen coordinates. */
  move(atom: number, by: Three, step = true): void {
    const back = rotated(Float64Array.from(by), transpose(this.motion));
    const before = this.state.moved[atom] ?? [0, 0, 0];
    const to = near([before[0] + back[0], before[1] + back[1], before[2] + back[2]]);
    this.change({ moved: { ...this.state.moved, [atom]: to } }, `${this.names[atom]} was moved.`, step);
  }

  override undo(): void {
    this.announcement = "Undone.";
    super.undo();
  }

  override redo(): void {
    this.announcement = "Redone.";
    super.redo();
  }

  reset(): void {
    this.change(this.schema.initial(), "Reset.");
  }

  // --- drawing -------------------------------------------------------------------------------------------------------------
  /** Draw now, and at most once a frame whenever something changes. */
  keep(draw: () => void): void {
    draw();
    this.parts.push(draw);
  }

  /** The same, a few times a second: for text. */
  keepSlowly(draw: () => void): void {
    let [waiting, last] = [0, 0];
    this.keep(() => {
      if (waiting) return;
      waiting = window.setTimeout(() => {
        [waiting, last] = [0, performance.now()];
        draw();
      }, Math.max(0, last + SELDOM - performance.now())); // prettier-ignore
    });
  }

  refresh(): void {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      for (const draw of this.parts) draw();
    });
  }
}

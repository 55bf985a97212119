// The desk of the molecule: what a person has done, where the atoms are, and what the models answer there.
import type { Molecule, Solver, Species } from "../contract";
import { History } from "../state";
import { unpack } from "../tensor";
import { bonds, place } from "./scene";
import { Solvers } from "./worker_client";
import type { Answers, Question } from "./solver";
import { initial, type MoleculeState, near, toHash } from "./state";
import { after, angles, degrees, matrix, type Matrix, MIRROR, STILL, type Three, times, transposed, type Turn, turned } from "./rotation"; // prettier-ignore

/** still: of the molecule as it stands in the file, with atoms moved; now: of the same, turned. Both belong to the same geometry. */
export interface Known {
  still?: Answers;
  now?: Answers;
  by: Matrix; // what stands between the two
  degrees: number;
  mirrored: boolean;
}

const SELDOM = 150; // milliseconds between two drawings of a table

export class MoleculeDesk {
  readonly history = new History<MoleculeState>();
  readonly kinds: Species[]; // of each atom
  readonly names: string[]; // C1, C2, H1
  readonly radii: number[];
  readonly solvers: Solvers;
  readonly known: Known[];
  told = "";
  failure = "";
  private readonly frames: Float64Array;
  private readonly parts: (() => void)[] = [];
  private readonly heard: ((solver: number) => void)[] = [];
  private stills: string[];
  private drawing = 0;
  private later = 0;

  constructor(
    readonly record: Molecule,
    public state: MoleculeState,
  ) {
    this.frames = unpack(record.frames).data;
    const elements = new Map(record.elements.map((one) => [one.number, one]));
    this.kinds = record.atoms.map((number) => elements.get(number)!);
    const times = new Map<string, number>();
    this.names = this.kinds.map(({ symbol }) => {
      times.set(symbol, (times.get(symbol) ?? 0) + 1);
      return `${symbol}${times.get(symbol)}`;
    });
    this.radii = this.kinds.map(({ radius }) => radius);
    this.known = record.solvers.map(() => ({ by: matrix(STILL), degrees: 0, mirrored: false }));
    this.stills = record.solvers.map(() => "");
    this.solvers = new Solvers(
      record,
      (question, answers) => this.answered(question, answers),
      (why) => this.fail(why),
    );
    this.ask();
  }

  // --- where the atoms are -------------------------------------------------------------------------------------------------
  get atoms(): number {
    return this.kinds.length;
  }

  /** Places [N·3] as in the file, with what was moved, before any turn. */
  get base(): Float64Array {
    const { frame, moved } = this.state;
    const size = 3 * this.atoms;
    const out = this.frames.slice(frame * size, (frame + 1) * size);
    for (const [atom, by] of Object.entries(moved)) for (let k = 0; k < 3; k++) out[3 * Number(atom) + k] += by[k];
    return out;
  }

  /** The mirror, then the turn. */
  get motion(): Matrix {
    const by = matrix(this.state.turn);
    return this.state.mirror ? times(by, MIRROR) : by;
  }

  /** Places as they are seen, which is what the models are given. */
  get positions(): Float64Array {
    return turned(this.base, this.motion);
  }

  /** Where an atom is seen. */
  seen(atom: number): Three {
    return place(this.positions, atom);
  }

  /** Degrees about the upright axis, the sideways one, and the line of sight. */
  get angles(): Three {
    return angles(this.state.turn);
  }

  get bonds(): [number, number][] {
    return bonds(this.base, this.radii);
  }

  /** The largest distance of an atom from the middle, over all frames. */
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

  // --- what the models say -------------------------------------------------------------------------------------------------
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
    return { still, by: this.motion, degrees: degrees(this.state.turn), mirrored: this.state.mirror };
  }

  private answered({ solver, key, about }: Question, answers: Answers): void {
    if (about.still !== this.stills[solver]) return; // of a geometry that has gone
    const known = this.known[solver];
    if (key === "still") known.still = answers;
    else Object.assign(known, { now: answers, by: about.by, degrees: about.degrees, mirrored: about.mirrored });
    if (known.still && known.now) for (const one of this.heard) one(solver);
    this.failure = "";
    this.refresh();
  }

  private fail(why: string): void {
    this.failure = `The models could not be asked (${why}).`;
    this.refresh();
  }

  /** Called whenever a model has answered. */
  hear(one: (solver: number) => void): void {
    this.heard.push(one);
  }

  // --- what a person does --------------------------------------------------------------------------------------------------
  /** said: what to tell those who do not see it. */
  change(change: Partial<MoleculeState>, said = "", undoable = true): void {
    if (undoable) this.history.push(this.state);
    this.state = { ...this.state, ...change };
    this.told = said;
    if ("turn" in change || "mirror" in change || "frame" in change || "moved" in change) this.ask();
    this.refresh();
    clearTimeout(this.later);
    this.later = window.setTimeout(() => history.replaceState(null, "", `#${this.link()}`), 300);
  }

  /** Turn on, about axes of the screen. */
  turn(by: Turn, undoable = true): void {
    const turn = after(by, this.state.turn);
    this.change({ turn }, "", undoable);
  }

  /** -1: none. */
  choose(atom: number): void {
    const now = atom === this.state.atom ? -1 : atom;
    this.change({ atom: now }, now < 0 ? "No atom is chosen." : `${this.names[now]}, ${this.kinds[now].name}, is chosen.`, false);
  }

  /** Whoever turns the molecule by itself stops here. */
  rest: () => void = () => {};

  /** Move an atom by so many Å as it is seen. */
  move(atom: number, by: Three, undoable = true): void {
    const back = turned(Float64Array.from(by), transposed(this.motion));
    const before = this.state.moved[atom] ?? [0, 0, 0];
    const to = near([before[0] + back[0], before[1] + back[1], before[2] + back[2]]);
    this.change({ moved: { ...this.state.moved, [atom]: to } }, `${this.names[atom]} was moved.`, undoable);
  }

  undo(): void {
    this.follow(this.history.undo(this.state), "Taken back.");
  }

  redo(): void {
    this.follow(this.history.redo(this.state), "Done again.");
  }

  reset(): void {
    this.change(initial(this.record), "Back to the beginning.");
  }

  follow(state: MoleculeState | undefined, said: string): void {
    if (state) this.change({ ...state }, said, false);
  }

  link(): string {
    return toHash(this.state, this.record);
  }

  // --- drawing -------------------------------------------------------------------------------------------------------------
  /** Do now, and again at most once a frame whenever something changes. */
  keep(draw: () => void): void {
    draw();
    this.parts.push(draw);
  }

  /** The same for what is read and not followed: a few times a second. */
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

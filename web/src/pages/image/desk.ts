// The desk of the image page: a program for each scheme, and what its weights say of the regions.
import type { Patches, Region } from "../../core/contract";
import { Desk, type Run, type Target } from "../../core/desk";
import type { Name } from "../../core/names";
import { poolOf, Program } from "../../core/program";
import { changed, map, type Tensor } from "../../core/tensor";
import { count, type ImageState, stateOf } from "./state";

export const LIES_ON = 1.5; // share of attention over share of the area from which attention is said to lie on a region

/** Of a region: its share of the area, and of somebody's attention. */
export interface RegionShare {
  region: Region;
  area: number;
  attention: number;
}

export class ImageDesk extends Desk<ImageState> {
  readonly patches: number;
  readonly columns: number;
  private readonly pool: Map<string, Tensor>;
  private readonly runs = new Map<string, Run>();
  private readonly scaled = new Map<string, [string, Tensor]>();

  constructor(readonly record: Patches) {
    super(stateOf(record));
    this.patches = count(record);
    this.columns = record.grid[1];
    this.pool = poolOf(record.pool);
  }

  names(axis: string, length: number): Name[] | undefined {
    if (axis === "feature" && length === this.record.features.length) return this.record.features.map(plain);
    if (axis === "token" && length === this.patches) return Array.from({ length }, (_, i) => plain(this.place(i)));
    return undefined;
  }

  /** The page is never built again, so that the keyboard focus stays. */
  protected override changed(): void {
    this.refresh();
  }

  /** Row and column of a patch. */
  place(patch: number): string {
    return `${Math.floor(patch / this.columns)}·${patch % this.columns}`;
  }

  regionOf(patch: number): Region | undefined {
    return (this.record.regions ?? []).find(({ patches }) => patches.includes(patch));
  }

  /** The program of the chosen scheme, with the numbers as the person left them. */
  get run(): Run {
    return this.runOf(this.state.scheme);
  }

  private runOf(scheme: string): Run {
    const record = this.record.programs.find((one) => one.scheme === scheme)!;
    const leaves = new Map(record.program.leaves.map((leaf) => [leaf.id, this.leaf(leaf.pool!, leaf.symbol)]));
    const run = this.runs.get(scheme) ?? { record, program: new Program(record.program, leaves), leaves };
    this.runs.set(scheme, run);
    run.program.change(leaves);
    run.leaves = leaves;
    return run;
  }

  /** The same object as long as nothing about it changed, so that the program computes only what did. */
  private leaf(key: string, symbol: string): Tensor {
    const { scale, edits } = this.state;
    const by = symbol === "W_Q" ? scale : 1;
    const text = JSON.stringify([by, edits[key] ?? null]);
    const known = this.scaled.get(key);
    if (known?.[0] === text) return known[1];
    const given = this.pool.get(key)!;
    const value = changed(by === 1 ? given : map(given, (number) => number * by), edits[key]);
    this.scaled.set(key, [text, value]);
    return value;
  }

  id(role: string): string {
    return this.run.record.roles![role];
  }

  value(role: string): Tensor {
    return this.run.program.get(this.id(role));
  }

  /** The index of a cell [patch, column] of a value, behind leading axes of one head. */
  index(id: string, patch: number, column: number): number[] {
    const rank = this.run.program.get(id).shape.length;
    return [...Array(rank - 2).fill(0), patch, column];
  }

  /** A row of a value [N, ...], under the chosen scheme unless another is named. */
  row(role: string, patch = this.state.patch, scheme = this.state.scheme): Float64Array {
    const { record, program } = this.runOf(scheme);
    const { shape, data } = program.get(record.roles![role]);
    const wide = shape.at(-1)!;
    return data.subarray(patch * wide, (patch + 1) * wide);
  }

  /** The shares of the attention of some patches, by default of the selected one. */
  shares(of: number[] = [this.state.patch]): RegionShare[] {
    return (this.record.regions ?? []).map((region) => {
      let sum = 0;
      for (const patch of of) {
        const weights = this.row("weights", patch);
        for (const other of region.patches) sum += weights[other];
      }
      return { region, area: region.patches.length / this.patches, attention: sum / of.length };
    });
  }

  /** The mean distance, in patches, of what the selected patch attends to. */
  distance(scheme = this.state.scheme): number {
    const at = (i: number): [number, number] => [Math.floor(i / this.columns), i % this.columns];
    const [y, x] = at(this.state.patch);
    const weights = this.row("weights", this.state.patch, scheme);
    return weights.reduce((sum, weight, i) => sum + weight * Math.hypot(at(i)[0] - y, at(i)[1] - x), 0);
  }

  /** A number of the selected patch that is pointed at stays in the state, hence in the link. */
  override pin(target: Target | undefined): void {
    super.pin(target);
    const point = target ? this.named(target) : "";
    if (point !== this.state.point) this.set({ point }, { step: false });
  }

  private named({ id, index }: Target): string {
    const role = Object.entries(this.run.record.roles!).find(([, known]) => known === id)?.[0];
    return role && index.at(-2) === this.state.patch ? `${role}:${index.at(-1)}` : "";
  }

  /** Point at the number that the state names. */
  restorePoint(): void {
    const [role, column] = this.state.point.split(":");
    const id = this.run.record.roles![role];
    if (id === undefined || Number(column) >= this.run.program.get(id).shape.at(-1)!) return super.pin(undefined);
    super.pin({ run: this.run, id, index: this.index(id, this.state.patch, Number(column)) });
  }

  choose(patch: number): void {
    if (patch !== this.state.patch) this.set({ patch });
  }
}

const plain = (text: string): Name => ({ text, colour: -1 });

export const ratio = ({ attention, area }: RegionShare): number => attention / area;
export const liesOn = (share: RegionShare): boolean => ratio(share) >= LIES_ON;

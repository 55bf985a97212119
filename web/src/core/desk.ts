// The desk: one state, the marks that show it, and the cell a person points at.
import type { SchemeProgram } from "./contract";
import { h } from "./dom";
import type { Name } from "./names";
import type { Place, Program } from "./program";
import type { Shown } from "./state";
import { Store } from "./store";
import type { Tensor } from "./tensor";

/** A program at work: its record, and its numbers for one input. free: every number can be changed, those of steps too. */
export interface Run {
  free?: boolean;
  record: SchemeProgram;
  program: Program;
  leaves: Map<string, Tensor>;
  source?: number[];
}

/** A cell of a run: whose program, which value, where; names are those of its tokens, where they are not the words in order. */
export interface Target extends Place {
  run: Run;
  names?: Name[];
}

/** A view of a program's value: it can be redrawn, and can highlight cells. */
export interface Mark {
  run: Run;
  id: string;
  light(cells: Place[], style: "operand" | "target"): void;
}

/** Something that is redrawn whenever the numbers change, and its element. */
interface Live {
  draw: () => void;
  element?: Element;
}

// Safari has no idle callbacks: there the rest is drawn in the next task.
const whenIdle: (work: (deadline: IdleDeadline) => void) => number =
  "requestIdleCallback" in globalThis
    ? (work) => requestIdleCallback(work, { timeout: 100 })
    : (work) => window.setTimeout(work, 0, { timeRemaining: () => 50, didTimeout: true });
const cancelIdle: (id: number) => void = globalThis.cancelIdleCallback ?? clearTimeout;

export abstract class Desk<S extends Shown = Shown> extends Store<S> {
  readonly marks = new Set<Mark>();
  private live: Live[] = [];
  private deferred: Live[] = [];
  private idle = 0;
  private readonly onScreen = new WeakSet<Element>();
  private readonly watcher = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) this.onScreen[isIntersecting ? "add" : "delete"](target);
    },
    { rootMargin: "100px" },
  );
  private frame = 0;
  private lit = false;
  private pinned: Target | undefined;
  private pointed: Target | undefined;
  private readonly pointing: ((target: Target | undefined) => void)[] = [];
  rebuild: () => void = () => {};

  /** Names along an axis of a value, where its rows or columns have names. */
  abstract names(axis: string, length: number): Name[] | undefined;

  // --- state -----------------------------------------------------------------------------------------------------------
  /** Change the state. structure: the page is built again; else the marks on screen are refreshed, at most once a frame. */
  override set(change: Partial<S>, { step = true, structure = false } = {}): void {
    this.structure = structure;
    super.set(change, { step });
  }
  private structure = false;

  protected override changed(_change: Partial<S>, whole: boolean): void {
    if (whole || this.structure) this.restart();
    else this.refresh();
    this.structure = false;
  }

  /** Build the page. */
  restart(): void {
    this.live = [];
    this.deferred = [];
    this.watcher.disconnect();
    this.marks.clear();
    this.pinned = this.pointed = undefined;
    this.rebuild();
    this.announce();
  }

  /** Do now, and again whenever the numbers change; what belongs to an element off the screen may wait for a quiet moment. */
  keep(draw: () => void, element?: Element): void {
    draw();
    this.live.push({ draw, element });
    if (element) this.watcher.observe(element);
  }

  protected refresh(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const seen = this.live.filter(({ element }) => !element || this.onScreen.has(element));
      this.deferred = this.live.filter((live) => !seen.includes(live));
      for (const { draw } of seen) draw();
      this.announce();
      cancelIdle(this.idle);
      this.idle = whenIdle((deadline) => this.catchUp(deadline));
    });
  }

  /** Everything, at once. */
  draw(): void {
    this.deferred = [];
    for (const { draw } of this.live) draw();
    this.announce();
  }

  private catchUp(deadline: IdleDeadline): void {
    while (this.deferred.length && (deadline.timeRemaining() > 2 || deadline.didTimeout)) this.deferred.shift()!.draw();
    if (this.deferred.length) this.idle = whenIdle((next) => this.catchUp(next));
    else if (this.lit) this.announce();
  }

  // --- pointing --------------------------------------------------------------------------------------------------------
  onPoint(listener: (target: Target | undefined) => void): void {
    this.pointing.push(listener);
  }

  point(target: Target | undefined): void {
    if (same(target, this.pointed)) return;
    this.pointed = target;
    this.announce();
  }

  pin(target: Target | undefined): void {
    this.pinned = this.pointed = target;
    this.announce();
  }

  get target(): Target | undefined {
    return this.pointed ?? this.pinned;
  }

  private announce(): void {
    const target = this.target;
    for (const listener of this.pointing) listener(target);
    if (!target && !this.lit) return;
    this.lit = !!target;
    const operands = target ? this.operands(target) : [];
    for (const mark of this.marks) {
      const mine = target && mark.run === target.run;
      mark.light(mine ? operands.filter((place) => place.id === mark.id) : [], "operand");
      mark.light(mine && mark.id === target.id ? [target] : [], "target");
    }
  }

  private operands(target: Target): Place[] {
    try {
      const found = target.run.program.operands(target.id, target.index);
      return found ? [...found.terms.filter((t): t is Place => "id" in t), ...found.more] : [];
    } catch {
      return [];
    }
  }
}

/** Names with rows in front that are no words: a class token's. */
export const behindClass = (names: Name[], length: number): Name[] =>
  [...Array.from({ length: Math.max(length - names.length, 0) }, () => ({ text: "[class]", colour: -1 })), ...names].slice(
    0,
    length,
  );

function same(a: Target | undefined, b: Target | undefined): boolean {
  return a === b || (!!a && !!b && a.run === b.run && a.id === b.id && a.index.join() === b.index.join());
}

/** A part of the page that may fail: it is replaced by an error message. */
export function guarded(app: Desk, root: HTMLElement, draw: () => void): void {
  const message = h("p.failed", { role: "alert", hidden: true });
  root.append(message);
  app.keep(() => {
    try {
      draw();
      message.hidden = true;
      root.classList.remove("has-failed");
    } catch (error) {
      message.hidden = false;
      root.classList.add("has-failed");
      message.textContent = error instanceof Error ? error.message : String(error);
    }
  }, root);
}

/** Computed once for each state, however many marks ask. */
export function perState<T>(app: Desk, make: () => T): () => T {
  let [state, value]: [Shown | undefined, T | undefined] = [undefined, undefined];
  return () => {
    if (state !== app.state) [state, value] = [app.state, make()];
    return value as T;
  };
}

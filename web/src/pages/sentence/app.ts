// The app: the desk of the page of a sentence.
import { behindClass, Desk, type Target } from "../../core/desk";
import { cellIndex, COLOURS, lead, type Name, value } from "../../core/names";
import type { Lab } from "./lab";
import { type State, stateOf } from "./state";

export class App extends Desk<State> {
  unfolded = false; // whether the choice of compared schemes is open

  constructor(readonly lab: Lab) {
    super(stateOf(lab.page));
  }

  get page() {
    return this.lab.page;
  }

  /** The words in the order they stand, a class token's row in front; nothing for other axes. */
  names(axis: string, length: number): Name[] | undefined {
    if (axis !== "token") return undefined;
    return behindClass(
      this.state.order.map((row) => word(this, row)),
      length,
    );
  }

  /** A number that is pointed at stays in the state, hence in the link. */
  override pin(target: Target | undefined): void {
    super.pin(target);
    const point = target ? named(target) : "";
    if (point !== this.state.point) this.set({ point });
  }

  /** Point at the number that the state names, where it is on screen. */
  restorePoint(): void {
    const [name, cell] = this.state.point.split(":");
    if (!cell) return;
    const [row, column] = cell.split(",").map(Number);
    for (const { run, id } of this.marks) {
      if (id !== (run.record.roles?.[name] ?? name)) continue;
      const { shape } = run.program.get(id);
      const ahead = lead(this, value(run, id).axes, shape);
      if (row < (shape.at(-2) ?? 1) && column < shape.at(-1)!)
        return super.pin({ run, id, index: cellIndex(shape.length, ahead, row, column) });
    }
  }
}

function named({ run, id, index }: Target): string {
  const role = Object.entries(run.record.roles ?? {}).find(([, known]) => known === id)?.[0] ?? id;
  return `${role}:${index.at(-2) ?? 0},${index.at(-1)}`;
}

/** The name of a word of the sentence, by its original row. */
export const word = (app: App, row: number): Name => ({ text: app.state.words[row], colour: row % COLOURS });

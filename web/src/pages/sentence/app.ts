// The app: the desk of the page of a sentence.
import { behindClass, Desk } from "../../core/desk";
import { COLOURS, type Name } from "../../core/names";
import type { Lab } from "./lab";
import { type State, toHash } from "./state";

export class App extends Desk<State> {
  constructor(
    readonly lab: Lab,
    state: State,
  ) {
    super(state);
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

  link(): string {
    return toHash(this.state, this.page);
  }
}

/** The name of a word of the sentence, by its original row. */
export const word = (app: App, row: number): Name => ({ text: app.state.words[row], colour: row % COLOURS });

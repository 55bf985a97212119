// What the exercises of the book ask of this page.
import type { Goals, Marked } from "../../core/goals";
import { capital } from "../../core/format";
import type { ReachPage } from "./page";
import { back, tokensBack } from "./effect";

const percent = (value: number): string =>
  value === 0 ? "0" : value < 1e-4 ? value.toExponential(1) : `${(100 * value).toFixed(2)} %`;

const GOALS: Record<string, (page: ReachPage) => Marked> = {
  /** The nearest token that the convolutions do not reach. */
  "out-of-patch": ({ state, effects }) => {
    const effect = effects.last("convolution", state);
    const where = tokensBack(back(state));
    if (state.weights !== "random") return { right: false, says: "Use the random weights." };
    if (effect > 0) return { right: false, says: `The convolutions still depend on ${where}: ${percent(effect)}.` };
    const nearer = effects.at("convolution", state.weights, state.token + 1, state.length - 1);
    return nearer > 0
      ? { right: true, says: `${capital(where)}, the effect is exactly 0; one token nearer it is ${percent(nearer)}.` }
      : { right: false, says: `The effect is 0 here, but also one token nearer. Find the nearest such token.` };
  },

  /** A token that the LSTM has almost forgotten and attention has not. */
  forgotten: ({ state, effects }) => {
    const [lstm, attention] = ["lstm", "attention"].map((name) => effects.last(name, state));
    if (state.weights !== "random") return { right: false, says: "Use the random weights." };
    if (lstm >= 1e-3) return { right: false, says: `The LSTM still remembers: its last output changes by ${percent(lstm)}.` };
    if (attention <= 1e-3) return { right: false, says: `Attention also changes little here: by ${percent(attention)}.` };
    return { right: true, says: `The LSTM changes by ${percent(lstm)}, attention by ${percent(attention)}.` };
  },

  /** A far token that the LSTM remembers, after training. */
  remembered: ({ state, effects }) => {
    const [lstm, far] = [effects.last("lstm", state), back(state)];
    if (far < 40) return { right: false, says: `This token is only ${far} back; choose one at least 40 back.` };
    if (lstm <= 0.1) return { right: false, says: `The LSTM's last output changes by ${percent(lstm)}. That is not yet a tenth.` };
    return { right: true, says: `${far} tokens back, and the LSTM's last output changes by ${percent(lstm)}.` };
  },
};

export const goalsOf = (page: ReachPage): Goals =>
  Object.fromEntries(Object.entries(GOALS).map(([name, goal]) => [name, () => goal(page)]));

// The worker: runs the models, so that drawing never waits.
import type { Solver } from "../../core/contract";
import { type ModelFunction, type Question, solver } from "./solver";

let solvers: Solver[] = [];
const ready: ModelFunction[] = [];

addEventListener("message", ({ data }: MessageEvent<Solver[] | Question>) => {
  if (Array.isArray(data)) {
    solvers = data;
    return;
  }
  try {
    const found = (ready[data.solver] ??= solver(solvers[data.solver]))(data.positions);
    postMessage(found);
  } catch (error) {
    postMessage({ failed: error instanceof Error ? error.message : String(error) });
  }
});

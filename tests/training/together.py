"""Runs of several processes: started by torchrun, it trains one run after the other.

    torchrun --nproc-per-node 2 tests/training/together.py RUNS

RUNS: a file, [{"folder": ..., "recipe": {...}, "stop": step}, ...]. A run with `stop` gets SIGTERM at that step.
At the end the first process prints a line of JSON for each: how many parameters are spread, whether the newest checkpoint, read
again, is the same bits, and what went wrong in each process.
"""

import json
import os
import signal
import sys
from pathlib import Path


def main(runs: list) -> list[dict]:
    import torch

    torch.set_num_threads(1)
    from equiscope.errors import EquiscopeError
    from equiscope.record.run import Point
    from equiscope.training import Watcher, fit, loop, open_task, recipe

    answers, kept, plain = [], {}, loop.TrainingEngine

    class Kept(plain):
        def __init__(self, *given):
            super().__init__(*given)
            kept["engine"] = self

    for run in runs:
        found, error = recipe(run["recipe"]), None

        def entry(entry, run=run):
            if isinstance(entry, Point) and entry.step == run.get("stop"):
                os.kill(os.getpid(), signal.SIGTERM)

        try:
            loop.TrainingEngine = Kept
            fit(found, open_task(found), Path(run["folder"]), Watcher(entry=entry), int(os.environ.get("WORLD_SIZE", 1)))
        except EquiscopeError as wrong:
            error = str(wrong)
        finally:
            loop.TrainingEngine = plain
        engine = kept["engine"]
        answer = {"spread": sum(hasattr(p, "device_mesh") for p in engine.model.parameters()), "same": False}
        if error is None:
            answer["same"] = _same(engine, Path(run["folder"]))
        answer["errors"] = engine.processes.gather_objects(error)
        if engine.first:
            answers.append(answer)
    return answers


def _same(engine, folder: Path) -> bool:
    """Whether the engine, given its newest checkpoint again, has that very state."""
    import torch

    from equiscope.checkpoints.run_folder import checkpoints, identity, read_checkpoint
    from equiscope.record import read_run

    found = read_checkpoint(checkpoints(folder)[0], identity(read_run(folder)))
    for p in engine.model.parameters():
        p.data.zero_()
    engine.restore(found.tensors)
    return all(
        tensors.keys() == found.tensors(name).keys() and all(torch.equal(t, found.tensors(name)[key]) for key, t in tensors.items())
        for name, tensors in engine.state().items()
    )


if __name__ == "__main__":
    for line in main(json.loads(Path(sys.argv[1]).read_text())):
        print(json.dumps(line), flush=True)

"""Train the runs of several seeds as one batched model, or apart: steps per second of all seeds.

    python -m benchmarks.together                  on a GPU if there is one: a table, and benchmarks/results
    python -m benchmarks.together --quick          a few steps, nothing is saved
    python -m benchmarks.together --cases text --seeds 1,2 --processes 2

in turn    one run after the other, in one process
at once    one process for each seed, `--processes` at a time, which share the GPU
together   one process, `equiscope.training.together`

A step is data, loss, gradient, clipping and optimiser, without evaluations and checkpoints. The ways take turns; the table has the
median of `--turns`. On a GPU seconds are wall time, so nothing else should run. On a CPU they are seconds of one core with one
thread: runs at once have a core each, so that their rate for each core is that of runs in turn.
"""

import argparse
import datetime
import multiprocessing
import os
import statistics
import time

import torch
from benchmarks.machine import ROOT, machine, save, versions

from equiscope.training import open_task, read_recipe, resolve_spec
from equiscope.training.engine import TrainingEngine
from equiscope.training.loop import untrained_model
from equiscope.training.together import Stack

RECIPES = ROOT / "recipes"
TEXT = ("data.train=samples/tinyshakespeare.txt", "data.tokens=characters")
CASES = {
    "text": ("shakespeare-char-cpu.toml", TEXT, "characters, 4 x 128, batch 12, context 64"),
    "pictures": ("fashion-mnist.toml", (), "Fashion-MNIST, small form"),
    "larger text": ("shakespeare-char.toml", (*TEXT, "engine.compile=false"), "characters, 6 x 384, batch 64, context 256"),
}
CUDA = torch.cuda.is_available()
CLOCK = time.perf_counter if CUDA else time.process_time
WARM = 5  # steps before the clock starts


def opened(case, seed):
    """The recipe of a case with a seed, its task and its model."""
    name, changes, _ = CASES[case]
    recipe = read_recipe(RECIPES / name, [*changes, f"seed={seed}"], not changes)
    task = open_task(recipe, RECIPES)
    return recipe, task, untrained_model(recipe, task, resolve_spec(task))


def timed(step, steps):
    """Seconds of a number of steps, after a few others."""
    for number in range(WARM):
        step(number)
    synchronised()
    begin = CLOCK()
    for number in range(WARM, WARM + steps):
        step(number)
    synchronised()
    return CLOCK() - begin


def synchronised():
    if CUDA:
        torch.cuda.synchronize()


def in_turn(case, seeds, steps, processes):
    recipe, task, model = opened(case, 0)
    engine = TrainingEngine(recipe, model)
    return timed(lambda number: engine.step(task, number), steps) * seeds


def together(case, seeds, steps, processes):
    recipes, tasks, models = zip(*(opened(case, seed) for seed in range(seeds)), strict=True)
    stack = Stack(recipes, tasks, models)
    everyone = range(seeds)
    return timed(lambda number: list(stack.step(number, lambda: 0, everyone)), steps)


def at_once(case, seeds, steps, processes):
    """Processes that begin together; the slowest counts, and as many turns as all seeds need."""
    running = min(seeds, processes)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(running), context.Queue()
    workers = [context.Process(target=one, args=(case, seed, steps, barrier, answers)) for seed in range(running)]
    for worker in workers:
        worker.start()
    slowest = max(answers.get(timeout=300) for _ in workers)
    for worker in workers:
        worker.join()
    return slowest * seeds / running


def one(case, seed, steps, barrier, answers):
    recipe, task, model = opened(case, seed)
    engine = TrainingEngine(recipe, model)
    timed(lambda number: engine.step(task, number), 1)
    barrier.wait(300)
    answers.put(timed(lambda number: engine.step(task, WARM + 1 + number), steps))


WAYS = {"in turn": in_turn, **({"at once": at_once} if CUDA else {}), "together": together}


def measured(case, seeds, steps, turns, processes):
    """Steps a second of all seeds, turn by turn."""
    rates = {way: [] for way in WAYS}
    for _ in range(turns):
        for way, run in WAYS.items():
            rates[way].append(seeds * steps / run(case, seeds, steps, processes))
    return rates


def markdown(results):
    lines = [f"# Seeds together and apart ({results['date']})", "", f"{results['machine']}", "", f"{results['versions']}", ""]
    unit = f"at once: up to {results['processes']} processes" if CUDA else "of one core"
    lines += [f"Steps a second of all seeds, {unit}. Times: together / the better of the others.", ""]
    lines += [f"| model | seeds | {' | '.join(WAYS)} | times |", f"| --- |{' ---: |' * (len(WAYS) + 2)}"]
    for row in results["rows"]:
        medians = {way: statistics.median(row["rates"][way]) for way in WAYS}
        times = medians["together"] / max(rate for way, rate in medians.items() if way != "together")
        said = " | ".join(f"{medians[way]:.1f}" for way in WAYS)
        lines.append(f"| {CASES[row['case']][2]} | {row['seeds']} | {said} | {times:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="five steps, one turn, nothing saved")
    parser.add_argument("--cases", default="text,pictures", help=", ".join(CASES))
    parser.add_argument("--seeds", default="1,4,8")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    device = "cuda" if CUDA else "cpu"
    if not CUDA:
        torch.set_num_threads(1)
    results = {"date": datetime.date.today().isoformat(), "machine": machine(device), "versions": versions()}
    results |= {"processes": chosen.processes, "rows": []}
    steps, turns = (5, 1) if chosen.quick else (chosen.steps, chosen.turns)
    for case in chosen.cases.split(","):
        for seeds in map(int, chosen.seeds.split(",")):
            rates = measured(case, seeds, steps, turns, chosen.processes)
            results["rows"].append({"case": case, "seeds": seeds, "rates": rates})
            print(case, seeds, {way: round(statistics.median(each), 1) for way, each in rates.items()}, flush=True)
    print(markdown(results))
    if not chosen.quick:
        save(f"together-{device}", results, markdown(results))


if __name__ == "__main__":
    main()

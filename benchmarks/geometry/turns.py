"""Seconds of contestants that take turns (A B C D A B C D), and the peak memory of a pass.

In a turn, a short pass is repeated until 50 ms have passed, so that it runs with a warm cache. With one thread, seconds are CPU
seconds, so that other processes have little influence.
"""

import time

import torch
from benchmarks.memory import peak

TURN = 0.05  # seconds
HEAVY = 4.0  # seconds of a pass above which its memory is not listed, as the profiler's list of allocations takes longer than it


def measured(makers, run, turns, budget, limit, left_out):
    """For each contestant its seconds, bytes and parameters, or the reason why there are none.

    run       one pass of a model
    budget    seconds after which a contestant has had enough turns (3 at least); limit: of one pass, else it is not tried again
    left_out  name -> reason; those that fail or exceed the limit are added
    """
    models, again, found = {}, {}, {}
    for name, make in makers.items():
        if name in left_out:
            found[name] = {"why": left_out[name]}
            continue
        try:
            model = make()
            run(model)  # plans, kernels and tables are made
            took = clocked(run, model)
            if took > limit:
                raise TimeoutError(f"a pass takes {took:.0f} s")
            model.zero_grad(set_to_none=True)  # gradients are counted
            size = peak(lambda model=model: run(model), "cpu") if took < HEAVY else None
        except Exception as error:  # a peer may fail in any way: that is a result
            why = str(error).splitlines()[0][:90] if str(error) else ""
            found[name] = {"why": why if isinstance(error, TimeoutError) else f"{type(error).__name__}: {why}"}
            left_out[name] = found[name]["why"]
            continue
        models[name] = model
        again[name] = max(1, min(50, round(TURN / took)))
        found[name] = {"seconds": [], "bytes": size, "parameters": sum(p.numel() for p in model.parameters())}
    for _ in range(turns):
        for name, model in models.items():
            spent = found[name]["seconds"]
            if len(spent) < 3 or sum(spent) < budget:
                spent.append(sum(clocked(run, model) for _ in range(again[name])) / again[name])
    return found


def clocked(run, *given):
    """Seconds of a pass."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    run(*given)
    return clock() - begin

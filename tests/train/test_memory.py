import os
import subprocess
import sys

import pytest

from equiscope.train.memory import FEW, PRIMITIVES, few_primitives

FAULTS = """
import resource, sys
import torch
if sys.argv[1] == "kept":
    from equiscope.train.memory import keep
    if not keep():
        sys.exit(3)
torch.set_num_threads(1)
def step():
    torch.ones(16, 2**20)  # 64 MiB, gone at once
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("This system's malloc has no such switches.")
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_a_step_gets_the_pages_that_the_one_before_had():
    assert faults("kept") < 0.1 * faults("given back")


SHAPES = """
import sys
import torch
if sys.argv[1] == "few":
    from equiscope.train.memory import few_primitives
    few_primitives()
for again in range(2):
    for rows in range(100, 300):
        torch.nn.functional.gelu(torch.zeros(rows, 64))
"""


def compiled(how: str) -> int:
    """How often oneDNN compiled GELU for one of 200 lengths, which come twice."""
    told = {name: value for name, value in os.environ.items() if name != PRIMITIVES}  # an earlier test may have trained here
    told["ONEDNN_VERBOSE"] = "profile_create"
    done = subprocess.run([sys.executable, "-c", SHAPES, how], capture_output=True, text=True, check=True, env=told)
    return sum("create:cache_miss" in line and "gelu" in line for line in done.stdout.splitlines())


def test_of_batches_of_many_lengths_only_few_are_kept():
    many = compiled("many")
    if not many:
        pytest.skip("This torch has no oneDNN, or does not ask it for this function.")
    assert compiled("few") > 1.5 * many


def test_what_a_person_has_set_stays(monkeypatch):
    monkeypatch.setenv(PRIMITIVES, "7")
    few_primitives()
    assert os.environ[PRIMITIVES] == "7"
    monkeypatch.delenv(PRIMITIVES)
    few_primitives()
    assert os.environ[PRIMITIVES] == str(FEW)

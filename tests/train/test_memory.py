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


GROWTH = """
import re, sys
import torch
if sys.argv[1] == "few":
    from equiscope.train.memory import few_primitives
    few_primitives()
torch.set_num_threads(1)
def held():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
def step(rows):
    x = torch.zeros(4, rows, 512, requires_grad=True)
    torch.nn.functional.gelu(x).sum().backward()
step(100)
before = held()
for i in range(400):
    step(100 + 3 * i % 397)
print(held() - before)
"""


def growth(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", GROWTH, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_batches_of_many_lengths_keep_memory_for_few_of_them():
    many = growth("many")
    if many < 200_000:
        pytest.skip("This torch keeps little for the shapes of its functions.")
    assert growth("few") < 0.6 * many


def test_what_a_person_has_set_stays(monkeypatch):
    monkeypatch.setenv(PRIMITIVES, "7")
    few_primitives()
    assert os.environ[PRIMITIVES] == "7"
    monkeypatch.delenv(PRIMITIVES)
    few_primitives()
    assert os.environ[PRIMITIVES] == str(FEW)

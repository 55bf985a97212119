import subprocess
import sys

import pytest

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

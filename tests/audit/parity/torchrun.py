"""Run by torchrun: every process calls parity and prints what it got."""

import torch.distributed as dist

import equiscope as eq
from tests.audit.parity.parallel import IDS, decoder, planted

dist.init_process_group("gloo")
parity = eq.parity(decoder(), planted("no sum", (1, "feedforward")), IDS)
print(f"{dist.get_rank()} {parity.kind} {parity.step_a.module}\n", end="", flush=True)
dist.destroy_process_group()

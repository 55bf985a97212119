"""Memory: what a step frees is kept for the next one, instead of being given back to the system and asked for again.

glibc gives blocks of more than 32 MiB back at once, and the system hands them out again page by page, zeroed: for the answers of
a model with a large vocabulary that costs more than computing the loss on them. Two switches of the process turn this off.
Source: mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.

And what oneDNN compiles for the shapes of a product is kept for 1024 of them, which is gigabytes where every batch of sentences has
other lengths. Few are enough: shapes that come again do so within a step. Source: oneDNN's developer guide, "Primitive Cache".
"""

import ctypes
import os
import sys

MMAP_MAX, TRIM_THRESHOLD = -4, -1  # numbers of glibc's malloc.h


PRIMITIVES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
FEW = 128


def few_primitives() -> None:
    """Before the first product of this process; what a person has set stays."""
    os.environ.setdefault(PRIMITIVES, str(FEW))


def keep() -> bool:
    """From now on, in this process. Returns whether it could: elsewhere than under glibc nothing changes."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))

"""Memory: what a step frees is kept for the next one, instead of being given back to the system and asked for again.

glibc gives blocks of more than 32 MiB back at once, and the system hands them out again page by page, zeroed: for the answers of
a model with a large vocabulary that costs more than computing the loss on them. Two switches of the process turn this off.
Source: mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.
"""

import ctypes
import sys

MMAP_MAX, TRIM_THRESHOLD = -4, -1  # numbers of glibc's malloc.h


def keep() -> bool:
    """From now on, in this process. Returns whether it could: elsewhere than under glibc nothing changes."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))

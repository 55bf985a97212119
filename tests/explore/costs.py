"""Pages of cost for tests: times that were recorded once, so that nobody waits, and a machine with a hostile name."""

from msgspec.structs import replace

from equiscope.explore.pages.cost import cost
from equiscope.record import Cost
from equiscope.record.cost import Rate, Speeds, Timing
from equiscope.study.speed import rate

HOSTILE = "<img src=x onerror=alert(1)></script><b>chip</b>"
RECORDED = [  # part, n, d, heads, multiply-adds, median, quartiles, fitted
    ("attention", 16, 64, 2, 294912, 0.173, 0.165, 0.208, True),
    ("step by step", 16, 64, 2, 294912, 0.287, 0.268, 0.329, True),
    ("feed-forward", 16, 64, 0, 524288, 0.081, 0.08, 0.095, True),
    ("attention", 64, 64, 2, 1572864, 0.204, 0.201, 0.276, True),
    ("step by step", 64, 64, 2, 1572864, 0.309, 0.303, 0.336, True),
    ("feed-forward", 64, 64, 0, 2097152, 0.126, 0.124, 0.132, True),
    ("attention", 256, 64, 2, 12582912, 0.606, 0.578, 2.662, True),
    ("step by step", 256, 64, 2, 12582912, 0.957, 0.906, 3.329, True),
    ("feed-forward", 256, 64, 0, 8388608, 0.33, 0.307, 0.353, True),
    ("attention", 1024, 64, 2, 150994944, 12.818, 9.043, 12.908, True),
    ("step by step", 1024, 64, 2, 150994944, 20.609, 20.195, 24.085, True),
    ("feed-forward", 1024, 64, 0, 33554432, 1.265, 1.093, 5.518, True),
    ("attention", 2048, 64, 2, 570425344, 50.662, 45.282, 52.682, True),
    ("step by step", 2048, 64, 2, 570425344, 153.075, 151.993, 161.949, True),
    ("feed-forward", 2048, 64, 0, 67108864, 8.39, 3.359, 10.677, True),
    ("attention", 16, 256, 8, 4325376, 0.676, 0.528, 4.786, True),
    ("step by step", 16, 256, 8, 4325376, 0.691, 0.627, 0.718, True),
    ("feed-forward", 16, 256, 0, 8388608, 0.644, 0.611, 1.704, True),
    ("attention", 64, 256, 8, 18874368, 0.853, 0.778, 5.042, True),
    ("step by step", 64, 256, 8, 18874368, 7.697, 1.086, 11.413, True),
    ("feed-forward", 64, 256, 0, 33554432, 1.111, 1.1, 1.151, True),
    ("attention", 256, 256, 8, 100663296, 11.599, 5.288, 11.765, True),
    ("step by step", 256, 256, 8, 100663296, 12.354, 12.31, 16.541, True),
    ("feed-forward", 256, 256, 0, 134217728, 11.571, 11.428, 11.649, True),
    ("attention", 1024, 256, 8, 805306368, 75.575, 71.556, 78.656, True),
    ("step by step", 1024, 256, 8, 805306368, 170.058, 165.724, 199.621, True),
    ("feed-forward", 1024, 256, 0, 536870912, 46.427, 41.26, 52.33, True),
    ("attention", 16, 768, 24, 38141952, 10.787, 8.039, 11.327, True),
    ("step by step", 16, 768, 24, 38141952, 11.09, 7.686, 11.101, True),
    ("feed-forward", 16, 768, 0, 75497472, 12.154, 11.962, 12.53, True),
    ("attention", 64, 768, 24, 157286400, 19.565, 15.909, 22.146, True),
    ("step by step", 64, 768, 24, 157286400, 22.018, 14.53, 26.706, True),
    ("feed-forward", 64, 768, 0, 301989888, 31.124, 26.9, 31.691, True),
    ("attention", 256, 768, 24, 704643072, 59.743, 56.398, 60.439, True),
    ("step by step", 256, 768, 24, 704643072, 66.473, 61.468, 69.078, True),
    ("feed-forward", 256, 768, 0, 1207959552, 82.59, 80.614, 89.027, True),
    ("attention", 256, 256, 1, 100663296, 10.742, 6.612, 11.113, False),
    ("step by step", 256, 256, 1, 100663296, 11.25, 9.169, 11.317, False),
    ("attention", 256, 256, 2, 100663296, 10.846, 6.835, 13.235, False),
    ("step by step", 256, 256, 2, 100663296, 11.346, 10.054, 11.919, False),
    ("attention", 256, 256, 4, 100663296, 11.115, 7.182, 13.238, False),
    ("step by step", 256, 256, 4, 100663296, 11.804, 11.621, 14.028, False),
    ("attention", 256, 256, 16, 100663296, 11.961, 11.625, 13.455, False),
    ("step by step", 256, 256, 16, 100663296, 13.358, 13.113, 17.332, False),
    ("attention", 256, 256, 32, 100663296, 22.604, 19.232, 23.549, False),
    ("step by step", 256, 256, 32, 100663296, 28.581, 27.449, 34.174, False),
    ("attention", 256, 256, 64, 100663296, 35.639, 32.204, 42.286, False),
    ("step by step", 256, 256, 64, 100663296, 73.784, 56.523, 85.467, False),
]


def speeds() -> Speeds:
    """Recorded on one thread of a server."""
    names = Timing.__struct_fields__
    timed = [Timing(**dict(zip(names, one, strict=True))) for one in RECORDED]
    rates: list[Rate] = [found for part in ("attention", "step by step", "feed-forward") if (found := rate(part, timed))]
    return Speeds(timings=timed, rates=rates, rounds=5, dtype="float32", threads=1, cpu="AMD EPYC (recorded)", torch="2.13.0")


def recorded() -> Cost:
    return cost(speeds())


PAGES = {
    "recorded": recorded,
    "formulas": cost,
    "hostile": lambda: cost(replace(speeds(), cpu=HOSTILE)),
}

"""A plugin of pytest: which test reaches which fault, also through a fixture of several tests, and what CPU time it takes."""

import os
from pathlib import Path

import planted
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    watcher: set[int] = set()
    planted.watchers.append(watcher)
    try:
        return (yield)
    finally:
        planted.watchers.remove(watcher)
        fixturedef.reached_faults = watcher


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    for fixture in getattr(item._request, "_fixture_defs", {}).values():
        for number in getattr(fixture, "reached_faults", ()):
            planted.note(number)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    begin = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        with Path(os.environ["EQUISCOPE_FAULT_NOTES"]).with_suffix(".times").open("a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\t{sum(os.times()[:4]) - begin:.4f}\n")


def pytest_runtest_logreport(report):
    if report.failed:
        with Path(os.environ["EQUISCOPE_FAULT_NOTES"]).with_suffix(".failed").open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")

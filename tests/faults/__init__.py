"""Planted faults: small mistakes drawn by a seed, and which of the three speeds of tests find them.

    git worktree add --detach ../planted && python -m tests.faults plant ../planted
    cd ../planted && export PYTHONPATH=src:tests/faults EQUISCOPE_FAULTS=$PWD/faults
    EQUISCOPE_FAULT_NOTES=$EQUISCOPE_FAULTS/notes.1 python -m pytest -m "not browser and not thorough" -p recorder tests/positions
    EQUISCOPE_FAULT_NUMBERS=0,1,2 python -m pytest -p hunter tests/positions
    python -m tests.faults table faults

`python -m tests.faults draw FOLDER` draws other faults into drawn.json, which `plant` reads. A fault is found by the text of its
expression: where the source is renamed, drawn.json follows.

The second command notes which test reaches which fault, the third runs for each fault the tests that reach it, quickest first.
Both take the rooms that one names. `table` writes docs/why/faults.md. What no test
could find stands in set_aside.json, with the reason.
"""

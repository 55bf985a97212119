"""Planted faults: small mistakes, drawn at random with a seed, and which of the three runs of the tests find them.

    git worktree add --detach ../planted && python -m tests.faults plant ../planted
    cd ../planted && export PYTHONPATH=src:tests/faults EQUISCOPE_FAULTS=$PWD/faults
    EQUISCOPE_FAULT_NOTES=$EQUISCOPE_FAULTS/notes.1 python -m pytest -m "not browser and not thorough" -p recorder tests/positions
    EQUISCOPE_FAULT_NUMBERS=0,1,2 python -m pytest -p hunter tests/positions
    python -m tests.faults table faults

`python -m tests.faults draw FOLDER` draws other faults into drawn.json, which `plant` reads. `plant` looks for the text of each
expression in the source: if the source is renamed, rename it in drawn.json too.

The command with `recorder` records which test evaluates which fault. The one with `hunter` runs these tests for each fault,
quickest first. Both run the test folders that are given. `table` writes docs/why/faults.md. set_aside.json has the notes of that
page: why no test can find a fault, or that a test was added.
"""

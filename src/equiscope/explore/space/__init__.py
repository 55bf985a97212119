"""What the molecule page runs: functions of points as loops, and their solvers."""

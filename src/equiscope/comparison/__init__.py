"""Comparison: many runs of one recipe, one table, and the answer that the spread over seeds supports.

plan = make_plan(recipe, folder, parse_vary(["position=none,rope"], "language"), seeds=[1, 2, 3])
write_plan(plan, folder)
run_all(folder, plan, processes=2)
of_folder(folder).answer
"""

from equiscope.comparison.answer import with_answer
from equiscope.comparison.outcome import of_folder, of_runs
from equiscope.comparison.plan import Plan, make_plan, read_plan, write_plan
from equiscope.comparison.question import Question, read_question
from equiscope.comparison.significance import compare_pairs
from equiscope.comparison.vary import combinations, parse_vary
from equiscope.comparison.verbs import compare
from equiscope.comparison.workers import run_all, run_with_ray

__all__ = [
    "Plan",
    "Question",
    "combinations",
    "compare",
    "compare_pairs",
    "make_plan",
    "of_folder",
    "of_runs",
    "parse_vary",
    "read_plan",
    "read_question",
    "run_all",
    "run_with_ray",
    "with_answer",
    "write_plan",
]

"""Compare: many runs of one recipe, one table, and an answer that the spread supports.

plan = planned(recipe, beside, varied(["position=none,rope"], "language"), seeds=[1, 2, 3])
write_plan(plan, folder)
together(folder, plan, processes=2)
of_folder(folder).answer
"""

from equiscope.comparison.answer import answered
from equiscope.comparison.outcome import of_folder, of_runs
from equiscope.comparison.plan import Plan, planned, read_plan, write_plan
from equiscope.comparison.question import Question, read_question
from equiscope.comparison.sure import pairs
from equiscope.comparison.vary import combined, varied
from equiscope.comparison.verbs import compare
from equiscope.comparison.workers import together, with_ray

__all__ = [
    "Plan",
    "Question",
    "answered",
    "combined",
    "compare",
    "of_folder",
    "of_runs",
    "pairs",
    "planned",
    "read_plan",
    "read_question",
    "together",
    "varied",
    "with_ray",
    "write_plan",
]

"""Draft: a recipe for data that nobody prepared. Looks at files, says what it understood, and fits a split, a model and a budget.

One file for each kind of data. Nothing is trained: ten steps are timed, so that the budget is one of minutes on this machine.
"""

from equiscope.training.draft.draft import ChosenColumns, RecipeDraft
from equiscope.training.draft.listing import moved
from equiscope.training.draft.looking import look
from equiscope.training.draft.timing import StepTime, fit_budget, timed
from equiscope.training.draft.unpacking import look_into
from equiscope.training.draft.written import toml

__all__ = ["ChosenColumns", "RecipeDraft", "StepTime", "fit_budget", "look", "look_into", "moved", "timed", "toml"]

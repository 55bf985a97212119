"""Interventions: a value of a running model is changed, and the output is compared. Any module, at its own attention."""

from equiscope.interventions.attribution.direct import LogitAttribution, LogitPart
from equiscope.interventions.attribution.lens import LogitLens
from equiscope.interventions.attribution.rollout import rollout
from equiscope.interventions.attribution.token_effects import TokenEffects
from equiscope.interventions.cache import ActivationCache
from equiscope.interventions.changes import Change, Move
from equiscope.interventions.effect import Effect, MetricChange, log_probability, logit, logit_difference
from equiscope.interventions.experiment import Experiment, intervene
from equiscope.interventions.paths import Edge, TokenPath
from equiscope.interventions.ranking import Ranking, SiteEffect
from equiscope.interventions.sites import Site, embeddings, head, module, move, neuron, site, stream

__all__ = [
    "ActivationCache", "Change", "Edge", "Effect", "Experiment", "LogitAttribution", "LogitLens", "LogitPart", "MetricChange",
    "Move", "Ranking", "Site", "SiteEffect", "TokenEffects", "TokenPath", "embeddings", "head", "intervene", "log_probability",
    "logit", "logit_difference", "module", "move", "neuron", "rollout", "site", "stream",
]  # fmt: skip

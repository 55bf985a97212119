"""Records: plain, versioned data without torch that the subpackages exchange; the types of the page are generated from them.

A `ProgramRecord` holds leaves (inputs, weights, constants) and steps (each value and the operation that computes it). Anything that
implements the closed list of operations can run it on other leaves: the page does so when a reader shuffles, shifts or edits.
"""

from equiscope.record.array import Array, pack, unpack
from equiscope.record.attribution import AnswerCandidate, Attribution, LensLayer, LogitShare, TokenScore
from equiscope.record.audit import Audit, Counterexample, Coverage, Mark, OutputVerdict, Proof, Row, ServedModel
from equiscope.record.comparison import Candidate, Comparison, Extrapolation, Look, PairedDifference, Trial
from equiscope.record.computation import Computation
from equiscope.record.cost import Cost
from equiscope.record.drawing import Box, Drawing, Frame, Link, ModelClaim
from equiscope.record.evaluation import EvaluationRecord
from equiscope.record.explorable import Claim, Example, Explorable, Fact, SchemeProgram, SchemeVariant
from equiscope.record.guarded import Guarded
from equiscope.record.heads import (
    AttentionLayer,
    AttentionTensors,
    Heads,
    HeadStatistics,
    PositionTable,
    Rerun,
    RerunOptions,
    SideBySide,
)
from equiscope.record.interventions import InterventionEffect, RankedHeads
from equiscope.record.masks import Masks
from equiscope.record.messages import Messages
from equiscope.record.molecule import Molecule
from equiscope.record.parity import (
    Parity,
    ParityAnswers,
    ParityDifference,
    ParityDrift,
    ParityLayer,
    ParityPair,
    ParityRow,
    ParityStep,
    ParityWeight,
)
from equiscope.record.patches import Patches
from equiscope.record.program import VERSION, LeafRecord, ProgramRecord, StepRecord
from equiscope.record.reach import Reach
from equiscope.record.report import Report, ReportRow, report
from equiscope.record.run import DataFile, Point, Run, Sample, Score, read_run, write_run
from equiscope.record.run_report import RunReport, RunUpdate, run_report
from equiscope.record.token_sequence import TokenSequence
from equiscope.record.tokenised import Tokenised

__all__ = [
    "VERSION",
    "AnswerCandidate",
    "Array",
    "AttentionLayer",
    "AttentionTensors",
    "Attribution",
    "Audit",
    "Box",
    "Candidate",
    "Claim",
    "Comparison",
    "Computation",
    "Cost",
    "Counterexample",
    "Coverage",
    "DataFile",
    "Drawing",
    "EvaluationRecord",
    "Example",
    "Explorable",
    "Extrapolation",
    "Fact",
    "Frame",
    "Guarded",
    "HeadStatistics",
    "Heads",
    "InterventionEffect",
    "LeafRecord",
    "LensLayer",
    "Link",
    "LogitShare",
    "Look",
    "Mark",
    "Masks",
    "Messages",
    "ModelClaim",
    "Molecule",
    "OutputVerdict",
    "PairedDifference",
    "Parity",
    "ParityAnswers",
    "ParityDifference",
    "ParityDrift",
    "ParityLayer",
    "ParityPair",
    "ParityRow",
    "ParityStep",
    "ParityWeight",
    "Patches",
    "Point",
    "PositionTable",
    "ProgramRecord",
    "Proof",
    "RankedHeads",
    "Reach",
    "Report",
    "ReportRow",
    "Rerun",
    "RerunOptions",
    "Row",
    "Run",
    "RunReport",
    "RunUpdate",
    "Sample",
    "SchemeProgram",
    "SchemeVariant",
    "Score",
    "ServedModel",
    "SideBySide",
    "StepRecord",
    "TokenScore",
    "TokenSequence",
    "Tokenised",
    "Trial",
    "pack",
    "read_run",
    "report",
    "run_report",
    "unpack",
    "write_run",
]

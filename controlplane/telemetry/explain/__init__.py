"""Explains what is different about slow requests, and which known causes they show, from figures of the store."""

from controlplane.telemetry.explain.causes import Cause, Evidence, known_causes
from controlplane.telemetry.explain.difference import (
    Account,
    Explanation,
    Finding,
    Side,
    Split,
    StageDifference,
    explain,
)
from controlplane.telemetry.explain.nothing import nothing
from controlplane.telemetry.explain.observation import (
    Batching,
    Cache,
    ColdStarts,
    Observation,
    PromptMix,
    Regions,
    Replica,
    Tokenizer,
)

__all__ = [
    "Account",
    "Batching",
    "Cache",
    "Cause",
    "ColdStarts",
    "Evidence",
    "Explanation",
    "Finding",
    "Observation",
    "PromptMix",
    "Regions",
    "Replica",
    "Side",
    "Split",
    "StageDifference",
    "Tokenizer",
    "explain",
    "known_causes",
    "nothing",
]

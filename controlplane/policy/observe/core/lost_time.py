"""Where bad requests lose their time."""

from controlplane.telemetry.explain.difference import Split

MIN_BAD = 5
"""Fewer bad requests are no pattern."""


def stage_of(split: Split) -> str:
    """The stage in which bad requests (`chosen`) exceed the others most, or have most of their time where no other is. Empty: unknown."""
    bad, others = split.chosen, split.rest
    if bad.requests < MIN_BAD:
        return ""
    excess = {stage: bad.mean_ns(stage) - others.mean_ns(stage) for stage in bad.stage_ns}
    stage, most = max(excess.items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
    return stage if most > 0 else ""

"""Incidents out of severities step by step, counted one after the other."""

from collections.abc import Sequence

from controlplane.slo.replay.core.history import History


def runs(history: History, severities: Sequence[str | None], first: int = 0) -> list[tuple[str, int, int | None]]:
    """Worst severity, beginning and end of each unbroken run, one by one; `severities` begin with the step `first`."""
    episodes: list[tuple[str, int, int | None]] = []
    since: int | None = None
    worst_yet = "ticket"
    for step, severity in enumerate([*severities, None], first):
        if severity is not None:
            since, worst_yet = (step, severity) if since is None else (since, min(worst_yet, severity))
        elif since is not None:
            closed = None if step == first + len(severities) else history.at_s(step)
            episodes.append((worst_yet, history.at_s(since), closed))
            since, worst_yet = None, "ticket"
    return episodes

"""Says in a sentence why an explanation has no findings."""

from controlplane.telemetry.explain.difference import MIN_REQUESTS, Explanation


def nothing(explanation: Explanation) -> str | None:
    """The reason for no findings; None if there are findings."""
    if explanation.findings:
        return None
    if not explanation.chosen + explanation.rest:
        return "No answered request of this range is stored."
    if not explanation.chosen:
        return "None of the requests is among the chosen."
    if not explanation.rest:
        return "All requests are among the chosen: there is nothing to compare them with."
    if not explanation.difference_ns:
        return "The chosen took as long as the rest."
    if explanation.chosen < MIN_REQUESTS:
        return f"Too few for a pattern: fewer than {MIN_REQUESTS} requests are among the chosen."
    return "By no dimension do they differ from the rest by more than chance."

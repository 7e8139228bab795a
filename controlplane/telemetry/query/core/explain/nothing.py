"""Why there is nothing to tell: an empty answer that says which kind of empty it is."""

from controlplane.telemetry.query.core.explain.difference import MIN_REQUESTS, Explanation


def nothing(found: Explanation) -> str | None:
    """A sentence where there are no findings; None where there are."""
    if found.findings:
        return None
    if not found.chosen + found.rest:
        return "No request was answered in this range."
    if not found.chosen:
        return "None of the requests is among the chosen."
    if not found.rest:
        return "All requests are among the chosen: there is nothing to compare them with."
    if not found.difference_ns:
        return "The chosen took as long as the rest."
    if found.chosen < MIN_REQUESTS:
        return f"Too few for a pattern: fewer than {MIN_REQUESTS} requests are among the chosen."
    return "By no dimension do they differ from the rest by more than chance."

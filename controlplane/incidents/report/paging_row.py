"""Paging's row of the serving stack, for the overview and the API."""

from controlplane.fleet.core.stack_rows import Row
from controlplane.incidents.notify.delivery.health.health import Health


def paging_row(health: Health) -> Row:
    """The state of delivery, from the outbox."""
    figures = {"waiting": float(health.figures.pending)}
    if health.share_within_30s_1d is not None:
        figures["within_30_s_ratio"] = health.share_within_30s_1d
    return Row(
        "paging",
        "Paging",
        "paging",
        health.state,
        age_s=health.figures.sender_age_s,
        detail=health.detail,
        figures=figures,
    )

"""`./weir`, and what it leaves of policies."""

from controlplane.policy.models import PolicyRevision
from tests.support import commands


def run(*arguments: str) -> tuple[int, list[str]]:
    """The exit code, and the lines that it writes."""
    code, text = commands.run("weir", *arguments)
    return code, text.splitlines()


def states() -> dict[str, str]:
    """Of every revision, such as `chat-routes@1`."""
    rows = PolicyRevision.objects.order_by("name", "number")
    return {f"{row.name}@{row.number}": row.state for row in rows}

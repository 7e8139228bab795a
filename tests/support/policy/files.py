"""`./weir`, and what it leaves of policies."""

from io import StringIO

from django.core.management import call_command

from controlplane.policy.models import PolicyRevision


def run(*arguments: str) -> tuple[int, list[str]]:
    """The exit code, and the lines that it writes."""
    out = StringIO()
    try:
        call_command("weir", *arguments, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue().splitlines()
    return 0, out.getvalue().splitlines()


def states() -> dict[str, str]:
    """Of every revision, such as `chat-routes@1`."""
    rows = PolicyRevision.objects.order_by("name", "number")
    return {f"{row.name}@{row.number}": row.state for row in rows}

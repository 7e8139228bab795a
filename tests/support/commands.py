"""Commands of `manage.py`, and what they write."""

from io import StringIO

from django.core.management import call_command


def said(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def run(*arguments: str) -> tuple[int, str]:
    """The exit code, and all that it writes."""
    out = StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()

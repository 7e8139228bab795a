"""What an entry says of a change: the fields that differ, without secrets."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"
MAX_TEXT = 10_000
"""Characters of a value. Of a longer one the beginning and its length are shown."""
_SECRET = re.compile(r"secret|password|token|sha256|sealed|credential|digest|headers|kubeconfig|^key$|^data$|salt$")
UNRECORDED = frozenset({"last_login", "last_used_at", "updated_at", "previewed_at"})
"""Fields that change by use alone."""

Values = Mapping[str, Any]


def is_secret(field: str) -> bool:
    return bool(_SECRET.search(field))


def changes(before: Values | None, after: Values | None) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Both sides of what differs; None for a side that is not there. Of secrets they say that they differ, and no more.

    Both empty where nothing differs that is recorded.
    """
    names = sorted({*(before or {}), *(after or {})} - UNRECORDED)
    differing = [name for name in names if before is None or after is None or before.get(name) != after.get(name)]
    sides = (
        None if side is None else {name: _shown(name, side[name]) for name in differing if name in side}
        for side in (before, after)
    )
    shown_before, shown_after = sides
    return shown_before, shown_after


def _shown(field: str, value: Any) -> Any:
    if is_secret(field):
        return HIDDEN if value else value
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    return value

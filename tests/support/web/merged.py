"""What a browser does with a difference (`merged` of `weir.js`)."""

from typing import cast


def merged(before: str, changes: list[int | str]) -> str:
    after, left = "", iter(changes)
    for each in left:
        after += each if isinstance(each, str) else before[each : each + cast("int", next(left))]
    return after

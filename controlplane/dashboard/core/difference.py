"""What a browser needs to make a new text out of the one that it has: which parts of it stay, and what is new between them."""

import re
from collections.abc import Iterator

TOKEN = re.compile(r"[^<>,\s]*[<>,\s]|[^<>,\s]+")
"""HTML and the numbers of a figure change between these."""
LOOK = 6  # tokens that have to agree, where what follows has moved
MIN_COPY = 14  # characters: a shorter run costs less as text
BEYOND_UTF16 = re.compile("[\U00010000-\U0010ffff]")  # a browser counts these as two


def difference(before: str, after: str) -> list[int | str]:
    """Two numbers copy characters of `before`: from where, and how many. A string is new. `merged` of `weir.js` puts them together."""
    if BEYOND_UTF16.search(before) or BEYOND_UTF16.search(after):
        return [after]
    changes: list[int | str] = []
    text = ""
    for start, length, new in _runs(before, after):
        if length >= MIN_COPY:
            if text:
                changes.append(text)
                text = ""
            changes += (start, length)
        else:
            text += before[start : start + length]
        text += new
    return [*changes, text] if text else changes


def _runs(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    """A run of `before` that stays (start and length), and the new text behind it."""
    old, new = TOKEN.findall(before), TOKEN.findall(after)
    starts = [0]
    for token in old:
        starts.append(starts[-1] + len(token))
    seen = {tuple(old[at : at + LOOK]): at for at in range(len(old) - LOOK, -1, -1)}
    at, here = 0, 0  # in `new`, and where `old` would go on
    while at < len(new):
        if here >= len(old) or old[here] != new[at]:
            here = seen.get(tuple(new[at : at + LOOK]), min(here, len(old)))
        first = here
        while at < len(new) and here < len(old) and old[here] == new[at]:
            at, here = at + 1, here + 1
        stays, fresh = starts[here] - starts[first], at
        while at < len(new) and (here >= len(old) or old[here] != new[at]) and tuple(new[at : at + LOOK]) not in seen:
            at, here = at + 1, here + 1  # as if one token had been replaced by another
        yield starts[first], stays, "".join(new[fresh:at])

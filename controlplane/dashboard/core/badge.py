"""How a state is shown, everywhere: an icon, a CSS class of its tone, and words. Never colour alone."""

from typing import NamedTuple


class Badge(NamedTuple):
    icon: str
    tone: str
    words: str

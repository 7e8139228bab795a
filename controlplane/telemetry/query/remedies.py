"""Reads what to do about each known cause from `docs/causes.md`, so that the docs, the page and the API have one text."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A cause's paragraph: what it is, and the steps."""

    name: str
    shown_by: str
    steps: tuple[str, ...]


@functools.cache
def remedies() -> Mapping[str, Remedy]:
    """By the cause's name, in the page's order."""
    return parse((ROOT / "docs/causes.md").read_text(encoding="utf-8"))


@functools.cache
def component_remedies() -> Mapping[str, Remedy]:
    """What to do about a component that is down, from `docs/components.md`, by the anchor that its incident links to."""
    return parse((ROOT / "docs/components.md").read_text(encoding="utf-8"))


def parse(page: str) -> Mapping[str, Remedy]:
    """Sections of `## name`, a paragraph and a list of steps, by name. Lines may be broken; backticks and where links lead are left out."""
    by_name = {}
    page = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", page)
    for section in re.split(r"^## ", page.replace("`", ""), flags=re.MULTILINE)[1:]:
        name, _, rest = section.partition("\n")
        paragraph, *steps = re.split(r"^- ", rest, flags=re.MULTILINE)
        by_name[name.strip()] = Remedy(name.strip(), _joined(paragraph), tuple(map(_joined, steps)))
    return by_name


def _joined(text: str) -> str:
    return " ".join(text.split())

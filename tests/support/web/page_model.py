"""What a person sees of a screen with filters, and where a click can lead: its filters, its links, and what its forms would ask for."""

import html
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from controlplane.telemetry.query.core.question import DIMENSIONS

SCREENS = ("/latency", "/requests", "/map")
WORDS = {name.replace("_", " "): name for name in DIMENSIONS}
LIFTS = re.compile(r"Remove this|take this value away|clear filters|Lift the |Requests of every other|any length")
"""How a link that takes a filter away says so."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Click:
    """Leads to `url`; `says` is what stands on it, with its title."""

    url: str
    says: str

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    @property
    def asks(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.url).query, keep_blank_values=True)


@dataclass(frozen=True, slots=True)
class Screen:
    """An answer's HTML, of `path`."""

    path: str
    text: str

    @property
    def main(self) -> str:
        return self.text[self.text.index("<main") :].partition("</main>")[0] if "<main" in self.text else self.text

    @property
    def bar(self) -> str:
        """The form of the filters."""
        [form] = re.findall(r'<form\b[^>]*aria-label="Filters"[^>]*>.*?</form>', self.main, re.S)
        return form

    def words(self, begins: str = "<main", ends: str = "</main>") -> str:
        """The text between two marks as it is read."""
        part = self.text[self.text.index(begins) :].partition(ends)[0]
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).replace("\u202f", "").split())

    def filters(self) -> dict[str, list[str]]:
        """What the filter bar shows, as parameters: its range, what its lists have chosen, and its conditions."""
        shown: dict[str, list[str]] = {}
        for name, value in self._range():
            shown[name] = [value]
        for label, group in re.findall(r'role="group" aria-label="([^"]*)">(.*?)<select', self.bar, re.S):
            name = re.findall(r'<input type="hidden" name="([^"]*)"', group)[0]
            assert label.split()[0] in name or name == "prompt_bucket", (label, name)
            shown[name] = [html.unescape(value) for value in re.findall(r'title="Remove this value">([^<]*) <', group)]
        for name, value in self.chosen():
            if value:
                shown.setdefault(name, []).append(value)
        for text in re.findall(r'title="Remove this condition">([^<]*) <', self.bar):
            name, value = _condition(html.unescape(text))
            shown.setdefault(name, []).append(value)
        return shown

    def hidden(self) -> Pairs:
        """What the form asks for beside what it shows."""
        return tuple(
            (html.unescape(name), html.unescape(value))
            for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', self.bar)
        )

    def links(self, paths: Collection[str] = SCREENS) -> Iterator[Click]:
        """Every link to one of `paths`, those of the frame and of the chart too."""
        for href, tag in re.findall(r'<a\b[^>]*?href="([^"#]*)"(.*?)</a>', self.text, re.S):
            says = " ".join(html.unescape(re.sub(r"<[^>]*>|^[^>]*>", " ", tag)).split())
            title = "".join(re.findall(r'title="([^"]*)"', tag))
            url = html.unescape(href)
            if urlsplit(url).path in paths and "noreferrer" not in tag:
                yield Click(url, f"{says} {html.unescape(title)}")
        for figure in re.findall(r'<script id="figure" type="application/json">(.*?)</script>', self.text, re.S):
            for url in json.loads(figure)["layout"].get("meta", {}).get("hrefs") or ():
                yield Click(url, "a bar")

    def choices(self) -> Iterator[Click]:
        """What the form of the filters would ask for if one of its lists were changed."""
        for name, options in self._lists():
            others = [pair for pair in self.chosen() if pair[0] != name]
            for value, chosen in options:
                if not chosen:
                    says = f"{name}: {value}" if value else f"Remove this filter, {name}"
                    yield self._submitted([*self._range(), *others, *([(name, value)] if value else [])], says)

    def written(self, text: str) -> Click:
        """What the form asks for when `text` is written into the field of attributes."""
        chosen = [pair for pair in self.chosen() if pair[1]]
        return self._submitted([*self._range(), *chosen, ("attribute", text)], f"written: {text}")

    def _range(self) -> Pairs:
        """The fields of the range, as they are filled in."""
        found = re.findall(r'<input name="(from|to)" value="([^"]*)"', self.bar)
        return tuple((name, html.unescape(value)) for name, value in found)

    def _lists(self) -> list[tuple[str, list[tuple[str, bool]]]]:
        """Each list by its name: its values, and whether one is chosen."""
        return [
            (name, [(html.unescape(value), bool(mark)) for value, mark in re.findall(r'<option value="([^"]*)"( selected)?', options)])
            for name, options in re.findall(r'<select name="([^"]*)"[^>]*>(.*?)</select>', self.bar, re.S)
        ]  # fmt: skip

    def chosen(self) -> Pairs:
        """What its lists have chosen, by their names; empty where a list has nothing."""
        return tuple((name, value) for name, options in self._lists() for value, chosen in options if chosen)

    def _submitted(self, pairs: list[tuple[str, str]], says: str) -> Click:
        return Click(f"{self.path}?{urlencode([*pairs, *self.hidden()])}", says)


def _condition(text: str) -> tuple[str, str]:
    """The parameter that a condition of the filter bar stands for."""
    if text.startswith("tokens "):
        return "tokens", text.removeprefix("tokens ")
    name, excludes, value = text.partition(" is not ")
    if excludes:
        return "not", f"{WORDS.get(name, name)}={value}"
    if "=" in text:
        return "attribute", text
    name, _, value = text.partition(" ")
    return name, value

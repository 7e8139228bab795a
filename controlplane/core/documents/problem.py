"""A problem in a document, with its place and remedy."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from controlplane.core.formatting import shortened

Severity = Literal["error", "warning"]


class Mark(NamedTuple):
    """Both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    source: str  # the file's name
    mark: Mark
    severity: Severity
    rule: str  # such as `unknown-field`: stable, so that filters may use it
    path: str  # such as `spec.objectives[0].target`; empty for a whole document
    message: str  # names field, value and remedy

    def text(self) -> str:
        """`slos.yaml:12:5: error: … [target]`, the format of compilers."""
        return f"{self.source}:{self.mark.line}:{self.mark.column}: {self.severity}: {self.message} [{self.rule}]"


def dotted(path: Iterable[str | int], whole: str = "") -> str:
    """Such as `spec.steps[0].enter`, under the part at `whole`."""
    text = whole + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def shown(value: object, most: int = 60) -> str:
    """A value as messages quote it: as in YAML, and shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return shortened(repr(value) if isinstance(value, str) else str(value), most)

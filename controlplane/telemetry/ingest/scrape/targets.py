"""Reads the targets to scrape: a JSON list in `WEIR_SCRAPE_TARGETS` (the text itself, or a file's path), and one in `WEIR_HOME`.

Each is `{"job", "url", "interval_s", "timeout_s", "labels", "bearer_token_file", "bearer_token_env"}`. Only the first two are required.
"""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

FILE = "scrape-targets.json"
"""The file in `WEIR_HOME` that the fleet writes: its replicas and Weir's own processes."""
MAX_TARGETS = 10_000


class TargetsError(ValueError):
    """A list of targets cannot be used; permanent. The message has the place, the value and the remedy."""


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A target. Each scrape reads the token again, from the file or from an environment variable of this process."""

    job: str
    url: str
    interval_s: float = 15.0
    timeout_s: float = 5.0
    labels: dict[str, str] = {}
    bearer_token_file: str = ""
    bearer_token_env: str = ""

    @property
    def instance(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def key(self) -> str:
        return f"{self.job}\n{self.url}"

    @property
    def identity(self) -> dict[str, str]:
        """The labels that each of its series gets."""
        return {**self.labels, "job": self.job, "instance": self.instance}


_decode = msgspec.json.Decoder(list[Target]).decode


def parse(text: str | bytes, where: str) -> list[Target]:
    """Raises TargetsError."""
    try:
        targets = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TargetsError(
            f'{where} is not a JSON list of targets ({error}); write [{{"job": …, "url": …}}]'
        ) from error
    if len(targets) > MAX_TARGETS:
        raise TargetsError(f"{where} has {len(targets)} targets; give at most {MAX_TARGETS}")
    for target in targets:
        _check(target, where)
    return targets


def _check(target: Target, where: str) -> None:
    def refuse(field: str, value: object, remedy: str) -> TargetsError:
        return TargetsError(f"{where}, target {target.job!r}: {field} {value!r} cannot be used; {remedy}")

    try:
        parts = urlsplit(target.url)
    except ValueError as error:
        raise refuse("url", target.url, f"{error}; write http://HOST:PORT/metrics") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refuse("url", target.url, "write http://HOST:PORT/metrics")
    if not target.job:
        raise refuse("job", target.job, "give it a name")
    if not 0.1 <= target.interval_s <= 3600:
        raise refuse("interval_s", target.interval_s, "use 0.1 to 3600")
    if not 0.05 <= target.timeout_s <= 60:
        raise refuse("timeout_s", target.timeout_s, "use 0.05 to 60")


def named(setting: str) -> list[Target]:
    """The targets of WEIR_SCRAPE_TARGETS. Raises TargetsError."""
    setting = setting.strip()
    if setting.startswith("["):
        return parse(setting, "WEIR_SCRAPE_TARGETS")
    return parse(_read(Path(setting)), setting) if setting else []


def of_fleet(home: Path) -> list[Target]:
    """The targets of the fleet; none before it has written the file. Raises TargetsError."""
    path = home / FILE
    return parse(_read(path), str(path)) if path.exists() else []


def unique(targets: Iterable[Target]) -> list[Target]:
    """The first of each job and URL."""
    by_key: dict[str, Target] = {}
    for target in targets:
        by_key.setdefault(target.key, target)
    return list(by_key.values())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TargetsError(
            f"{path} cannot be read ({error}); WEIR_SCRAPE_TARGETS names a file or holds the JSON itself"
        ) from error

"""The rules of a tenant in a tier, worked out once per snapshot."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from inference.contract.snapshot_parts import GuardRule, Pattern

_STRICT = {"report": 0, "mask": 1, "refuse": 2}


class Checks(NamedTuple):
    """What is asked of a request, or of an answer. Of several rules about a pattern, the strictest counts."""

    patterns: Mapping[Pattern, GuardRule]
    length: GuardRule | None
    moderations: tuple[GuardRule, ...]

    @property
    def any(self) -> bool:
        return bool(self.patterns or self.length or self.moderations)


class Guard(NamedTuple):
    """`mark` keeps cached answers apart: what others have let through is not given to this tenant."""

    requests: Checks
    answers: Checks
    mark: bytes


def guards_of(rules: Iterable[GuardRule], faulty: Iterable[str], tiers: Iterable[str]) -> dict[tuple[str, str], Guard]:
    """By tenant and tier. Whoever has no rules is left out. Of a tenant with a rule that cannot be obeyed, whose name is in `faulty`,
    nothing passes: what it would have refused is not known.
    """
    guards = {}
    given = [*rules, *(GuardRule(name, name.partition("/")[0], "length", max_chars=0) for name in faulty)]
    for tenant in {rule.tenant for rule in given}:
        for tier in tiers:
            those = [rule for rule in given if rule.tenant == tenant and (not rule.tiers or tier in rule.tiers)]
            if those:
                guards[tenant, tier] = _guard(those)
    return guards


def _guard(rules: list[GuardRule]) -> Guard:
    answers = _checks([rule for rule in rules if rule.answers and rule.kind != "length"])
    mark = msgspec.msgpack.encode([rule for rule in rules if rule.answers])
    digest = b"guard:" + blake2b(mark, digest_size=16).digest() if answers.any else b""
    return Guard(_checks([rule for rule in rules if rule.requests]), answers, digest)


def _checks(rules: list[GuardRule]) -> Checks:
    patterns: dict[Pattern, GuardRule] = {}
    for rule in sorted(rules, key=lambda rule: _STRICT[rule.action]):
        patterns |= dict.fromkeys(rule.patterns if rule.kind == "patterns" else (), rule)
    lengths = [rule for rule in rules if rule.kind == "length"]
    return Checks(
        patterns,
        min(lengths, key=lambda rule: rule.max_chars, default=None),
        tuple(rule for rule in rules if rule.kind == "moderation"),
    )

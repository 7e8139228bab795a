"""The policies that ticks follow: active revisions, and what they would be with the revisions in shadow."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from controlplane.core.documents import reading
from controlplane.policy.core import document
from controlplane.policy.core.decide import subject_of
from controlplane.policy.core.memory import Left
from controlplane.policy.core.spec import InForce
from controlplane.policy.models import PolicyRevision

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Policies:
    """`shadow` are the active ones, with those in shadow instead of what is active under their name or about the same as they are.
    `unreadable` says why a revision cannot be followed, by reference; `left` are the active ones among them."""

    active: tuple[InForce, ...] = ()
    shadow: tuple[InForce, ...] = ()
    in_shadow: frozenset[str] = frozenset()
    """References of those in shadow."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    left: tuple[Left, ...] = ()

    @property
    def references(self) -> Iterable[str]:
        """Of all that are in force or in shadow, readable or not."""
        return (*(each.reference for each in self.all), *self.unreadable)

    @property
    def all(self) -> tuple[InForce, ...]:
        """Each revision once. Documents have mappings, so they cannot be hashed."""
        return tuple({each.id: each for each in (*self.active, *self.shadow)}.values())


class PolicyReader:
    """Texts never change: each is read once."""

    def __init__(self) -> None:
        self._read: dict[int, InForce | Left] = {}

    def read(self) -> Policies:
        """In one query where nothing is new. Raises DatabaseError."""
        states = PolicyRevision.State
        rows = list(
            PolicyRevision.objects.filter(state__in=(states.ACTIVE, states.SHADOW)).values_list(
                "pk", "name", "number", "state"
            )
        )
        new = [pk for pk, *_ in rows if pk not in self._read]
        for row in PolicyRevision.objects.filter(pk__in=new) if new else ():
            self._read[row.pk] = in_force(row)
        for pk in self._read.keys() - {row[0] for row in rows}:
            del self._read[pk]
        active: dict[str, InForce] = {}
        shadow: dict[str, InForce] = {}
        unreadable: dict[str, str] = {}
        left: list[Left] = []
        for pk, name, number, state in rows:
            value = self._read.get(pk)
            if isinstance(value, InForce):
                (active if state == states.ACTIVE else shadow)[name] = value
            elif value is not None:
                unreadable[f"{name}@{number}"] = value.why
                left += [value] if state == states.ACTIVE else []
        return Policies(
            tuple(active.values()),
            (*_others(active, shadow), *shadow.values()) if shadow else (),
            frozenset(each.reference for each in shadow.values()),
            unreadable,
            tuple(left),
        )


def _others(active: Mapping[str, InForce], shadow: Mapping[str, InForce]) -> Iterator[InForce]:
    """The active ones that those in shadow would leave in force. Of two about the same, one would only be said not to be followed."""
    about = {_about(each) for each in shadow.values()}
    return (each for name, each in active.items() if name not in shadow and _about(each) not in about)


def _about(each: InForce) -> tuple[type, str]:
    return type(each.policy), subject_of(each.policy)


def in_force(row: PolicyRevision) -> InForce | Left:
    """The value, or why its text cannot be followed: an older release may have taken it."""
    try:
        policy, problems = document.read_single(row.text, f"{row.name}@{row.number}")
    except Exception as error:
        log.exception("policy.unreadable", policy=row.name, revision=row.number)
        return _left(row, f"{type(error).__name__}: {error}")
    if policy is None:
        return _left(row, "; ".join(map(str, problems)) or "it has no policy")
    return InForce(row.pk, row.number, document.digest_of(policy), policy)


def _left(row: PolicyRevision, why: str) -> Left:
    """With what it is about, as far as its text says that."""
    subject = ""
    with suppress(Exception):  # whatever is wrong with the text, it is said by now
        spec = reading.read(row.text, row.name)[0][0].node.at("spec")
        named = {name: node.text for name in ("model", "pool", "gateway") if spec and (node := spec.at(name))}
        subject = (
            named.get("model") or named.get("pool") or (f"gateway:{named['gateway']}" if "gateway" in named else "")
        )
    return Left(row.kind, row.name, subject, why)

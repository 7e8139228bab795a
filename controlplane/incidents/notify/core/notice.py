"""Notices and changes as plain values. `delivery` sends them to destinations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from controlplane.slo.core.windows import Severity

NoticeAction = Literal["trigger", "acknowledge", "resolve"]
NoticeSeverity = Literal["critical", "error", "warning", "info"]
SENT_AS: Mapping[Severity, NoticeSeverity] = {"page": "critical", "ticket": "warning"}
"""The severity of an incident's notices, which destinations choose by."""


@dataclass(frozen=True, slots=True)
class Link:
    href: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One action on an incident. Notices of one `key` are delivered in the order of `sequence`, each at least once."""

    action: NoticeAction
    key: str  # at most 255 characters; PagerDuty's dedup_key. A new incident of the same alert has a new key
    sequence: int
    at: datetime  # aware
    summary: str  # at most 1024 characters
    severity: NoticeSeverity
    source: str
    team: str = ""  # whose destinations; empty: the default ones
    component: str = ""
    group: str = ""
    kind: str = ""  # PagerDuty's class
    details: Mapping[str, Any] = field(default_factory=dict)  # JSON
    links: tuple[Link, ...] = ()
    known_to: str = ""  # the kind of destination where it was done, such as "pagerduty": it is not sent back there


@dataclass(frozen=True, slots=True)
class Change:
    """A policy revision or a deployment. Nobody has to act on it."""

    summary: str
    source: str
    at: datetime  # aware
    team: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

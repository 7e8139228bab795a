"""What is to be told to the outside, as plain values: `delivery` turns them into PagerDuty's, Slack's and our own webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

NoticeAction = Literal["trigger", "acknowledge", "resolve"]
NoticeSeverity = Literal["critical", "error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Link:
    href: str
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One step in an incident's life. Notices of one `key` are delivered in the order of `sequence`, each at least once."""

    action: NoticeAction
    key: str  # the incident's own, at most 255 characters: PagerDuty's dedup_key; a new incident of the same alert has a new one
    sequence: int
    at: datetime  # aware
    summary: str  # what a person reads first; at most 1024 characters
    severity: NoticeSeverity
    source: str
    team: str = ""  # whose destinations; empty: the default ones
    component: str = ""
    group: str = ""
    kind: str = ""  # PagerDuty's class
    details: Mapping[str, Any] = field(default_factory=dict)  # JSON
    links: tuple[Link, ...] = ()
    known_to: str = ""  # the kind of destination that it came from, such as "pagerduty": those are not told of it again


@dataclass(frozen=True, slots=True)
class Change:
    """Something was changed, and nobody need act: a policy revision, a deployment."""

    summary: str
    source: str
    at: datetime  # aware
    team: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

"""The steps that an incident can take at a tick, and the incident after each. `machine.py` decides on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from controlplane.slo.core.alert import State
from controlplane.slo.core.windows import Severity

Kind = Literal["silenced", "inhibited", "maintenance", "acknowledged", "downgraded", "nobody"]


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why no notice is sent. `by`: the silence's id, the inhibiting alert's key, or the severity that no destination takes (`nobody`);
    empty for the others. `downgraded`: a page that fires only as a ticket by now, and will become one."""

    kind: Kind
    by: str = ""


@dataclass(frozen=True, slots=True)
class Tracked:
    """An open incident, as far as decisions depend on it."""

    key: str
    severity: Severity
    scope: Mapping[str, str] = field(default_factory=dict)
    queued_as: Severity | None = None  # the severity of its notice in the outbox
    withheld: Withheld | None = None
    acknowledged: bool = False
    outage: bool = False
    signal: State = "firing"
    quiet_since: datetime | None = None
    downgraded_since: datetime | None = None  # it fires, but no longer as a page
    missing_since: datetime | None = None  # its objective is judged, and no alert of it is made


@dataclass(frozen=True, slots=True)
class Cooling:
    """A person resolved it."""

    until: datetime
    severity: Severity


@dataclass(frozen=True, slots=True)
class Opened:
    key: str
    severity: Severity
    scope: Mapping[str, str]
    outage: bool


@dataclass(frozen=True, slots=True)
class Escalated:
    """From ticket to page. The ticket's acknowledgement does not count for the page."""

    key: str


@dataclass(frozen=True, slots=True)
class Downgraded:
    """It fires only as a ticket (or, with None, as a page again)."""

    key: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Outage:
    """Most requests fail, or no longer do."""

    key: str
    lasts: bool


@dataclass(frozen=True, slots=True)
class Signalled:
    """`by`: the incident whose component is up again, where the alert is quiet for that reason."""

    key: str
    state: State
    at: datetime
    by: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """The alert is missing, and resolves after `for_s` (or, with None: it is back, or its objective is unknown)."""

    key: str
    since: datetime | None
    for_s: int = 0


@dataclass(frozen=True, slots=True)
class NotSent:
    """No notice is sent, and why. None: there is no reason any more, and nothing to send."""

    key: str
    withheld: Withheld | None


@dataclass(frozen=True, slots=True)
class Queued:
    """Its notice goes into the outbox. `before`: the severity of the notice that this one replaces."""

    key: str
    severity: Severity
    before: Severity | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """`silent`: quiet, because no request came. `downgraded`: it goes on as a ticket, which opens next. `missing`: for `for_s`.
    `changed`: its objective no longer judges that scope, or the component was removed. `explained`: the failures that still fire are
    of the time when the component of the incident `by` was down."""

    key: str
    why: Literal["quiet", "silent", "downgraded", "missing", "changed", "explained"]
    queued_as: Severity | None
    for_s: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True)
class Cooled:
    """Quiet after a person resolved it: if it fires again, a new incident opens."""

    key: str


Step = Opened | Escalated | Downgraded | Outage | Signalled | Missing | NotSent | Queued | Resolved | Cooled


def advance(before: Tracked | None, step: Step) -> Tracked | None:
    """The incident after a step; None: it is not open."""
    if isinstance(step, Opened):
        return Tracked(step.key, step.severity, step.scope, outage=step.outage)
    if before is None:
        return None
    match step:
        case Escalated():
            return replace(before, severity="page", acknowledged=False, downgraded_since=None)
        case Downgraded():
            return replace(before, downgraded_since=step.since)
        case Outage():
            return replace(before, outage=step.lasts)
        case Signalled():
            return replace(before, signal=step.state, quiet_since=step.at if step.state == "quiet" else None)
        case Missing():
            return replace(before, signal="unknown", quiet_since=None, missing_since=step.since)
        case NotSent():
            return replace(before, withheld=step.withheld)
        case Queued():
            return replace(before, queued_as=step.severity, withheld=None)
        case Resolved():
            return None
    return before

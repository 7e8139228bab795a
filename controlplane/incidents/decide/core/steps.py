"""What may become of an incident at a tick, and the incident after it. Pure; `machine.py` decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from controlplane.incidents.notify.core.notice import NoticeSeverity
from controlplane.slo.core.alert import State
from controlplane.slo.core.windows import Severity

Kind = Literal["silenced", "inhibited", "maintenance", "acknowledged", "easing", "nobody"]

SENT_AS: Mapping[Severity, NoticeSeverity] = {"page": "critical", "ticket": "warning"}
"""The severity of an incident's notices, which destinations choose by."""


@dataclass(frozen=True, slots=True)
class Rules:
    """`hold`: for how long an alert must have been quiet. Longer than two ticks of a slow controller, far shorter than a person's
    patience with a page that is over. `cool_down`: what a person resolved stays resolved for so long, though it still fires."""

    hold: timedelta = timedelta(minutes=2)
    cool_down: timedelta = timedelta(minutes=15)


RULES = Rules()


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why nobody is told. `by`: the silence's id, the inhibiting alert's key, or the notice's severity that no destination takes
    (`nobody`); empty for the others. `easing`: of a page that no longer fires as one, and that will be a ticket."""

    kind: Kind
    by: str = ""


@dataclass(frozen=True, slots=True)
class Tracked:
    """An open incident, as far as decisions depend on it."""

    key: str
    severity: Severity
    scope: Mapping[str, str] = field(default_factory=dict)
    told: Severity | None = None
    withheld: Withheld | None = None
    acknowledged: bool = False
    outage: bool = False
    signal: State = "firing"
    quiet_since: datetime | None = None
    eased_since: datetime | None = None  # it fires, but no longer as a page
    gone_since: datetime | None = None  # its objective is judged, and it is not


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
    """From ticket to page. An acknowledgement was of the ticket: the page wants one of its own."""

    key: str


@dataclass(frozen=True, slots=True)
class Eased:
    """Fires no longer as a page (or, with None, does again)."""

    key: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Outage:
    """Most requests fail, or no longer do."""

    key: str
    lasts: bool


@dataclass(frozen=True, slots=True)
class Signalled:
    """`by`: it is quiet because the component of that incident is up again."""

    key: str
    state: State
    at: datetime
    by: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """Not in the data any more, `for_s` before it is over (or, with None, it is again, or nobody can tell)."""

    key: str
    since: datetime | None
    for_s: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """Not told, and why; None: the reason is gone, and there is nothing to tell."""

    key: str
    withheld: Withheld | None


@dataclass(frozen=True, slots=True)
class Told:
    """`before`: the severity that was told until now, which is withdrawn."""

    key: str
    severity: Severity
    before: Severity | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """`silent`: quiet, because no request came. `eased`: it goes on as a ticket, which is opened next. `gone`: not in the data for
    `for_s`. `changed`: its objective no longer judges that scope, or the component was removed. `recovered`: what still burns is of
    the time when the component of the incident `by` was down."""

    key: str
    why: Literal["quiet", "silent", "eased", "gone", "changed", "recovered"]
    told: Severity | None
    for_s: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True)
class Cooled:
    """Quiet after a person had resolved it: if it fires again, that is news."""

    key: str


Step = Opened | Escalated | Eased | Outage | Signalled | Gone | Held | Told | Resolved | Cooled


def advance(before: Tracked | None, step: Step) -> Tracked | None:
    """The incident after a step; None: it is not open."""
    if isinstance(step, Opened):
        return Tracked(step.key, step.severity, step.scope, outage=step.outage)
    if before is None:
        return None
    match step:
        case Escalated():
            return replace(before, severity="page", acknowledged=False, eased_since=None)
        case Eased():
            return replace(before, eased_since=step.since)
        case Outage():
            return replace(before, outage=step.lasts)
        case Signalled():
            return replace(before, signal=step.state, quiet_since=step.at if step.state == "quiet" else None)
        case Gone():
            return replace(before, signal="unknown", quiet_since=None, gone_since=step.since)
        case Held():
            return replace(before, withheld=step.withheld)
        case Told():
            return replace(before, told=step.severity, withheld=None)
        case Resolved():
            return None
    return before

"""Whatever happens in whatever order: one open incident per key, no lost resolve, and a reason for every silence."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controlplane.incidents.core.rules import RULES
from controlplane.incidents.core.silences import Silence, matcher, silencing
from controlplane.incidents.decide.core.inhibition import Breakdown, inhibitor, past_breakdown
from controlplane.incidents.decide.core.machine import decide, subject
from controlplane.incidents.decide.core.steps import (
    Cooled,
    Cooling,
    Missing,
    NotSent,
    Opened,
    Outage,
    Queued,
    Resolved,
    Signalled,
    Tracked,
    Withheld,
    advance,
)
from controlplane.slo.core.alert import Alert
from controlplane.slo.core.windows import DAY_S, HOUR_S, Severity
from tests.support.incidents.alerts import NOW, TTFT, UP, alert, outage
from tests.support.soak import sized

OTHER = replace(TTFT, slug="other-ttft", scope={"model": "chat-small"})
KEYS = {made.key: made.objective for made in (alert(), alert(UP), alert(OTHER))}
CONDITIONS = ("page", "ticket", "outage", "quiet", "unknown", "maintenance", "absent")


def made(key: str, condition: str, at: datetime) -> Alert | None:
    objective = KEYS[key]
    match condition:
        case "absent":
            return None
        case "page" | "ticket":
            return alert(objective, severity=condition, at=at)
        case "outage":
            return outage(at=at) if objective is UP else alert(objective, at=at)
        case "maintenance":
            return alert(objective, maintenance=True, at=at)
    return alert(objective, state=condition, at=at)  # type: ignore[arg-type]


class Incidents(RuleBasedStateMachine):
    """`outside` is what somebody who hears only the notices believes to be open, and as what."""

    @initialize()
    def start(self) -> None:
        self.now = NOW
        self.tracked: dict[str, Tracked] = {}
        self.outside: dict[str, str] = {}
        self.cooling: dict[str, Cooling] = {}
        self.silences: list[Silence] = []
        self.alerts: dict[str, Alert] = {}
        self.quiet: dict[str, datetime] = {}
        self.breakdowns: list[Breakdown] = []

    @rule(
        conditions=st.fixed_dictionaries({key: st.sampled_from(CONDITIONS) for key in KEYS}),
        seconds=st.sampled_from([0, 15, 60, 130, 1000]),
        ticks=st.integers(1, 3),
    )
    def tick(self, conditions: dict[str, str], seconds: int, ticks: int) -> None:
        for _ in range(ticks):
            self.now += timedelta(seconds=seconds)
            found = {key: made(key, condition, self.now) for key, condition in conditions.items()}
            self.alerts = {key: one for key, one in found.items() if one is not None}
            self.run()

    @rule(key=st.sampled_from(sorted(KEYS)), minutes=st.integers(1, 40))
    def silence(self, key: str, minutes: int) -> None:
        ends = self.now + timedelta(minutes=minutes)
        matchers = (matcher(f"objective={KEYS[key].slug}"),)
        self.silences.append(Silence(str(len(self.silences)), matchers, self.now, ends))

    @rule(key=st.sampled_from(sorted(KEYS)))
    def acknowledge(self, key: str) -> None:
        if key in self.tracked:
            self.tracked[key] = replace(self.tracked[key], acknowledged=True)

    @rule(key=st.sampled_from(sorted(KEYS)))
    def resolve(self, key: str) -> None:
        if incident := self.tracked.pop(key, None):
            self.outside.pop(key, None)
            if incident.signal != "quiet":
                self.cooling[key] = Cooling(self.now + RULES.cool_down, incident.severity)

    @rule(scope=st.sampled_from([{}, {"model": "chat-large"}, {"pool": "near"}]))
    def break_down(self, scope: dict[str, str]) -> None:
        self.breakdowns.append(Breakdown(f"component:{len(self.breakdowns)}", (scope,)))

    @rule()
    def mend(self) -> None:
        self.breakdowns = [one if one.over_at else replace(one, over_at=self.now) for one in self.breakdowns]

    def run(self) -> None:
        before = dict(self.tracked)
        steps = decide(
            before.values(),
            list(self.alerts.values()),
            self.silences,
            self.cooling,
            self.now,
            breakdowns=self.breakdowns,
        )
        for step in steps:
            was = self.tracked.get(step.key)
            if isinstance(step, Opened):
                assert was is None, "one open incident per key"
                assert self.alerts[step.key].state == "firing"
            else:
                assert was is not None or isinstance(step, Cooled), "a step of an incident that is not open"
            self.heard(step)
            after = advance(was, step)
            if after is None:
                self.tracked.pop(step.key, None)
            else:
                self.tracked[step.key] = after
            if isinstance(step, Cooled):
                self.cooling.pop(step.key)

    def heard(self, step: object) -> None:
        if isinstance(step, Queued):
            found = self.alerts[step.key]
            assert found.state == "firing"
            assert not found.maintenance
            assert silencing(self.silences, subject(found), self.now) is None, "no notice of what is silenced"
            assert inhibitor(found, self.tracked.values(), self.breakdowns) is None, "no notice of what is inhibited"
            assert past_breakdown(found, self.breakdowns, self.now) is None, "no notice of what is left of a breakdown"
            assert self.outside.get(step.key) == step.before
            self.outside[step.key] = step.severity
        if isinstance(step, Resolved):
            assert self.outside.pop(step.key, None) == step.queued_as, "it resolves where it was sent"
            found = self.alerts[step.key]
            is_left = past_breakdown(found, self.breakdowns, self.now) is not None
            assert is_left == (step.why == "explained")
            assert found.state == "quiet" or is_left or (step.why == "downgraded" and found.severity == "ticket")
        if isinstance(step, NotSent) and step.withheld and step.withheld.kind == "inhibited":
            broken = {one.key for one in self.breakdowns if one.over_at is None}
            assert step.withheld.by in self.tracked.keys() | broken, "an inhibitor is open"

    @invariant()
    def outside_believes_what_is_so(self) -> None:
        told = {key: one.queued_as for key, one in self.tracked.items() if one.queued_as}
        assert told == self.outside

    @invariant()
    def what_fires_and_is_not_told_has_a_reason(self) -> None:
        for key, found in self.alerts.items():
            incident = self.tracked.get(key)
            if found.state != "firing" or found.at_ns != int(self.now.timestamp()) * 10**9:
                continue
            if past_breakdown(found, self.breakdowns, self.now):
                continue
            if incident is None:
                cools = key in self.cooling and self.now < self.cooling[key].until
                assert found.maintenance or cools
            elif incident.queued_as != incident.severity:
                assert incident.withheld is not None

    @invariant()
    def a_page_is_never_forgotten(self) -> None:
        """Once everything has been quiet for the hold, nothing is open, here or outside."""
        tracked, alerts = dict(self.tracked), [alert(one, state="quiet") for one in KEYS.values()]
        for later in (timedelta(seconds=1), timedelta(seconds=1) + RULES.hold):
            for step in decide(tracked.values(), alerts, self.silences, self.cooling, self.now + later):
                after = advance(tracked.get(step.key), step)
                tracked.pop(step.key, None)
                if after is not None:
                    tracked[step.key] = after
        assert not tracked


TestIncidents = Incidents.TestCase
TestIncidents.settings = settings(
    max_examples=sized(45, soak=600),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_an_outage_that_nobody_was_told_of_inhibits_nothing() -> None:
    silence = Silence("1", (matcher("objective=chat-up"),), NOW, NOW + timedelta(hours=1))
    steps = decide([], [alert(), outage()], [silence], {}, NOW)
    assert [step.key for step in steps if isinstance(step, Queued)] == [alert().key]


def test_a_page_after_a_ticket_that_was_resolved_is_news() -> None:
    cooling = {alert().key: Cooling(NOW + timedelta(minutes=10), "ticket")}
    assert not decide([], [alert(severity="ticket")], [], cooling, NOW)
    assert decide([], [alert()], [], cooling, NOW)


def test_each_of_a_group_is_told_by_itself() -> None:
    alerts = [alert(replace(TTFT, slug=f"chat-{number}")) for number in range(5)]
    assert sum(isinstance(step, Queued) for step in decide([], alerts, [], {}, NOW)) == 5


BY_POOL = replace(TTFT, slug="by-pool", scope={"model": "chat-large"}, split_by=("pool",))


def of_pool(pool: str, **more: Any) -> Alert:
    return alert(BY_POOL, scope={"model": "chat-large", "pool": pool}, **more)


def left_the_data(severity: Severity = "page") -> Tracked:
    return Tracked(of_pool("old").key, severity, {"model": "chat-large", "pool": "old"}, queued_as=severity)


def test_a_value_that_leaves_the_data_is_over_once_all_windows_of_its_severity_are_empty() -> None:
    sibling = of_pool("new", state="quiet")
    for severity, for_s in (("page", 6 * HOUR_S), ("ticket", 3 * DAY_S)):
        before = left_the_data(severity)
        (gone,) = decide([before], [sibling], [], {}, NOW)
        assert gone == Missing(before.key, NOW, for_s)
        later = advance(before, gone)
        assert later is not None
        assert (later.signal, later.missing_since) == ("unknown", NOW)
        assert decide([later], [sibling], [], {}, NOW + timedelta(seconds=for_s - 1)) == []
        over = decide([later], [sibling], [], {}, NOW + timedelta(seconds=for_s))
        assert over == [Resolved(before.key, "missing", severity, for_s)]


def test_while_nobody_can_tell_whether_it_left_the_clock_stands_at_nothing() -> None:
    gone = replace(left_the_data(), signal="unknown", missing_since=NOW)
    late = NOW + timedelta(days=30)
    for alerts in ([], [of_pool("new", state="unknown")], [of_pool("new"), of_pool("other", state="unknown")]):
        (step,) = (one for one in decide([gone], alerts, [], {}, late) if one.key == gone.key)
        assert step == Missing(gone.key, None)


def test_a_value_that_comes_back_is_judged_as_before() -> None:
    gone = replace(left_the_data(), signal="unknown", missing_since=NOW)
    steps = decide([gone], [of_pool("old")], [], {}, NOW + timedelta(hours=7))
    assert steps == [Missing(gone.key, None), Signalled(gone.key, "firing", NOW + timedelta(hours=7))]


def test_a_scope_that_its_objective_no_longer_judges_is_over_at_once() -> None:
    before = left_the_data()
    for changed in (replace(BY_POOL, split_by=("region",)), replace(BY_POOL, scope={"model": "chat-small"})):
        sibling = alert(changed, state="unknown", scope={**changed.scope, changed.split_by[0]: "x"})
        assert decide([before], [sibling], [], {}, NOW) == [Resolved(before.key, "changed", "page")]


def test_quiet_for_want_of_requests_is_told_from_quiet() -> None:
    quiet = Tracked(alert().key, "page", TTFT.scope, queued_as="page", signal="quiet", quiet_since=NOW)
    later = NOW + RULES.hold
    silent = alert(state="quiet")
    silent = replace(silent, verdicts=tuple(replace(one, long=None, short=None) for one in silent.verdicts))
    assert decide([quiet], [alert(state="quiet")], [], {}, later) == [Resolved(quiet.key, "quiet", "page")]
    assert decide([quiet], [silent], [], {}, later) == [Resolved(quiet.key, "silent", "page")]


def test_latency_is_told_once_fewer_than_half_of_the_requests_fail_though_the_outage_still_burns() -> None:
    held = decide([], [alert(), outage()], [], {}, NOW)
    tracked: dict[str, Tracked] = {}
    for step in held:
        tracked[step.key] = advance(tracked.get(step.key), step)  # type: ignore[assignment]
    assert tracked[alert().key].withheld == Withheld("inhibited", outage().key)
    smoulders = alert(UP, burn=20.0)
    steps = decide(tracked.values(), [alert(), smoulders], [], {}, NOW + timedelta(minutes=1))
    assert steps == [Outage(smoulders.key, False), Queued(alert().key, "page", None)]

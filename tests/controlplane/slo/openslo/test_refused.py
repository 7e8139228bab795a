"""Published OpenSLO examples with one part replaced: each is refused at its line and column, with what to do."""

from functools import cache
from pathlib import Path

import pytest

from controlplane.slo.openslo.core.lint import lint
from deploy.local.process import ROOT

MANUAL = (ROOT / "docs/openslo.md").read_text()

SPOILT: list[tuple[str, str, str, tuple[int, int], str]] = [
    ("slos.yaml", "openslo/v1", "openslo/v2", (1, 15), "apiVersion='openslo/v2' is not known: did you mean openslo/v1"),
    ("slos.yaml", "kind: SLO\n", "metadat: {}\n", (1, 3), "kind is missing: use one of DataSource, SLO, SLI, AlertPolicy,"),
    ("slos.yaml", "name: web-availability", "name: 12", (4, 11), "metadata.name=12 must be text: put it in quotes, '12'"),
    ("slos.yaml", "SLO for web availability", "x" * 64, (5, 18), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… has 64"),
    ("slos.yaml", "env:\n", "-env:\n", (7, 7), "metadata.labels has the key '-env': use at most 63 letters, digits,"),
    ("slos.yaml", "labels:", "annotations:", (8, 9), "metadata.annotations.env=a list of 1 must be text: write one line of"),
    ("slos.yaml", "service: web", "service:", (14, 5), "spec.service is empty: name the service it belongs to"),
    ("slos.yaml", "    indicator:", "    indicatorRef: other\n    indicator:", (15, 5), "spec has indicator and indicatorRef: keep one"),
    ("slos.yaml", "counter: true", "counter: 'true'", (20, 20), "spec.indicator.spec.ratioMetric.counter='true' must be true or false,"),
    ("slos.yaml", "          good:\n", "          fine:\n",
     (21, 11), "spec.indicator.spec.ratioMetric.fine is not a field: use counter,"),
    ("slos.yaml", "          total:\n", "          bad:\n", (20, 11), "spec.indicator.spec.ratioMetric has none of total, raw: give one"),
    ("slos.yaml", "kind: SLO", "kind: SLO\n  status: ok", (3, 3), "status is not a field: use apiVersion, kind, metadata, spec"),
    ("slos.yaml", "  spec:\n    description", "  spec: text\n  description",
     (14, 12), "not YAML: mapping values are not allowed in this context"),
    ("slos.yaml", "      env:\n        - prod", "      env:\n       - [prod", (9, 11), "not YAML: did not find expected ',' or ']'"),
    ("slos.yaml", "timeSliceWindow: 1m", "timeSliceWindow: *minute",
     (43, 26), "alias *minute has no anchor before it: write &minute at the value it refers to"),
    ("slos.yaml", "service: web", "service: !env WEB", (14, 14), "tag '!env' is not known: leave it out"),
    ("slos.yaml", "    timeWindow:\n      - duration: 1w",
     "    timeWindow:\n      - duration: 1w\n        isRolling: true\n      - duration: 1w",
     (34, 9), "spec.timeWindow has 2 entries: give exactly one"),
    ("slos.yaml", "duration: 1w", "duration: 0d", (32, 19), "spec.timeWindow[0].duration='0d' is not a duration: write a whole number"),
    ("slos.yaml", "isRolling: false", "isRolling: true", (34, 9), "spec.timeWindow[0].calendar is given, and isRolling is true: leave"),
    ("slos.yaml", "2022-01-01 12:00:00", "2022-13-01 12:00:00",
     (35, 22), "spec.timeWindow[0].calendar.startTime='2022-13-01 12:00:00' is no"),
    ("slos.yaml", "America/New_York", "America/NewYork",
     (36, 21), "spec.timeWindow[0].calendar.timeZone='America/NewYork' is not a time"),
    ("slos.yaml", "          timeZone: America/New_York\n", "",
     (35, 11), "spec.timeWindow[0].calendar.timeZone is missing: write UTC, or an"),
    ("slos.yaml", "target: 0.995", "target: 1", (41, 17), "spec.objectives[0].target=1 is not below 1: write a share such as"),
    ("slos.yaml", "target: 0.995", "target: -0.1", (41, 17), "spec.objectives[0].target=-0.1 is below 0: write a share such as"),
    ("slos.yaml", "target: 0.995", "target: 99.5%", (41, 17), "spec.objectives[0].target='99.5%' must be a number: write a share"),
    ("slos.yaml", "target: 0.995", "target: .nan", (41, 17), "'.nan' is not a finite number"),
    ("slos.yaml", "target: 0.995", "targetPercent: 100", (41, 24), "spec.objectives[0].targetPercent=100 is not below 100: write a"),
    ("slos.yaml", "        timeSliceTarget: 0.95\n", "", (39, 9), "spec.objectives[0].timeSliceTarget is missing: Timeslices needs it;"),
    ("slos.yaml", "timeSliceTarget: 0.95", "timeSliceTarget: 95",
     (42, 26), "spec.objectives[0].timeSliceTarget=95 is above 1: write a share such"),
    ("slos.yaml", "timeSliceWindow: 1m", "timeSliceWindow: 1m\n        compositeWeight: 1\n        indicatorRef: web",
     (15, 5), "spec.indicator is given beside indicators of its objectives: keep one"),
    ("slos.yaml", "      - displayName: Good\n        op: gt", "      - displayName: Good\n        op: gt\n        op: lt",
     (41, 9), "'op' is given twice, first on line 40: keep one"),
    ("slos.yaml", "timeSliceWindow: 1m", "timeSliceWindow: 1m\n    alertPolicies:\n      - alertPolicyRef: nobody",
     (45, 25), "spec.alertPolicies[0].alertPolicyRef='nobody' is not a known AlertPolicy"),
    ("slos.yaml", "timeSliceWindow: 1m", "timeSliceWindow: 1m\n    alertPolicies:\n      - kind: AlertPolicy",
     (45, 9), "spec.alertPolicies[0] has none of alertPolicyRef, spec: give one"),
    ("slos.yaml", "timeSliceWindow: 1m", "timeSliceWindow: 1m\n    alertPolicies: nobody",
     (44, 20), "spec.alertPolicies='nobody' must be a list: begin each entry with '- '"),
    ("slis.yaml", "ratioMetric:\n      counter: true\n      good:",
     "thresholdMetric:\n      metricSource: {spec: {query: x}}\n    ratioMetric:\n      counter: true\n      good:",
     (16, 5), "spec has thresholdMetric and ratioMetric: keep one"),
    ("slis.yaml", "      rawType: success\n", "", (70, 7), "spec.ratioMetric.rawType is missing: write success or failure"),
    ("slis.yaml", "  spec:\n    ratioMetric:\n      counter: false", "  spec:\n    ratioMetrics:\n      counter: false",
     (40, 5), "spec.ratioMetrics is not a field: did you mean ratioMetric"),
    ("alert_conditions.yaml", "severity: page", "severity: 1", (14, 15), "spec.severity=1 must be text: put it in quotes, '1'"),
    ("alert_conditions.yaml", "    severity: page\n", "", (13, 5), "spec.severity is missing: write page or ticket"),
    ("alert_conditions.yaml", "kind: burnrate", "kind: burn-rate",
     (16, 13), "spec.condition.kind='burn-rate' is not known: did you mean burnrate"),
    ("alert_conditions.yaml", "threshold: 2\n", "threshold: two\n", (18, 18), "spec.condition.threshold='two' must be a number"),
    ("alert_conditions.yaml", "lookbackWindow: 1h", "lookbackWindow: 60",
     (19, 23), "spec.condition.lookbackWindow=60 is not a duration: write a whole number"),
    ("alert_conditions.yaml", "openslo.com/service-folder", "openslo.com/service/folder",
     (27, 7), "metadata.annotations has the key 'openslo.com/service/folder': use a"),
    ("alert_conditions.yaml", "latency-too-high", "cpu-usage-breach",
     (24, 11), "metadata.name='cpu-usage-breach' is a second AlertCondition of that"),
    ("alert_conditions.yaml", "alertAfter: 30m", "alertAfter: 30m\n  specs: {}", (43, 3), "specs is not a field: did you mean spec"),
    ("alert_policies.yaml", "- conditionRef: cpu-usage-breach", "- conditionRef: cpu-usage-breach\n      - conditionRef: memory",
     (17, 9), "spec.conditions has 2 entries: a policy has exactly one condition;"),
    ("alert_policies.yaml", "- conditionRef: cpu-usage-breach", "- conditionRef: Cpu Usage",
     (16, 23), "spec.conditions[0].conditionRef='Cpu Usage' is not a name: use at most"),
    ("alert_policies.yaml", "- conditionRef: cpu-usage-breach\n", "- conditionRef: cpu\n        spec: {}\n",
     (16, 9), "spec.conditions[0].kind is missing: write kind: AlertCondition"),
    ("alert_policies.yaml", "alertWhenBreaching: true", "alertWhenBreaching: 1",
     (14, 25), "spec.alertWhenBreaching=1 must be true or false, without quotes"),
    ("alert_policies.yaml", "notificationTargets:\n      - targetRef: on-call-mail-notification\n", "notificationTargets: []\n",
     (17, 26), "spec.notificationTargets=a list of 0 has 0 entries: give at least 1"),
    ("alert_policies.yaml", "target: slack", "target:", (73, 11), "spec.notificationTargets[0].spec.target is empty: write pagerduty,"),
    ("alert_policies.yaml", "conditionRef: cpu-usage-breach", "conditionRef: gpu-usage-breach",
     (16, 23), "spec.conditions[0].conditionRef='gpu-usage-breach' is no"),
    ("alert_notification_targets.yaml", "    target: email\n", "", (12, 5), "spec.target is missing: write pagerduty, slack or another"),
    ("data_sources.yaml", "type: Prometheus", "type: [Prometheus]",
     (12, 11), "spec.type=a list of 1 must be text: write one line of text"),
    ("data_sources.yaml", "    connectionDetails:\n    - url: http://prometheus.example.com\n", "",
     (12, 5), "spec.connectionDetails is missing: describe how to reach it"),
    ("services.yaml", "name: example-service", "name: example.service",
     (10, 11), "metadata.name='example.service' is not a name: use at most 63 of a-z,"),
    ("services.yaml", "description: Example", "descripton: Example", (12, 5), "spec.descripton is not a field: did you mean description"),
]  # fmt: skip
"""File, what is replaced (its first occurrence), by what, line and column of the error, and a part of its message."""


@cache
def examples(folder: Path) -> tuple[dict[str, str], frozenset[str]]:
    """Texts by file, and the errors that they have as they were published."""
    texts = {path.name: path.read_text() for path in folder.glob("*.yaml")}
    return texts, frozenset(problem.message for problem in lint(texts).errors)


@pytest.mark.parametrize(("name", "old", "new", "place", "words"), SPOILT)
def test_a_spoilt_example_is_refused_at_its_line(
    shared_dir: Path, name: str, old: str, new: str, place: tuple[int, int], words: str
) -> None:
    texts, before = examples(shared_dir / "fixtures" / "openslo")
    assert old in texts[name]
    spoilt = {**texts, name: texts[name].replace(old, new, 1)}
    problems = [problem for problem in lint(spoilt).errors if problem.message not in before]
    assert any(problem.source == name and problem.mark == place and words in problem.message for problem in problems), [
        problem.text() for problem in problems
    ]
    assert all(f"| `{problem.rule}` |" in MANUAL for problem in problems)

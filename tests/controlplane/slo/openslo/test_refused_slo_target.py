"""Every way of spoiling a published SLO's time window, budgeting or objectives is refused at its line, with what to do."""

from pathlib import Path

import pytest

from tests.support.slo.spoilt_examples import Spoilt, assert_refused

SPOILT: list[Spoilt] = [
    (
        "slos.yaml",
        "    timeWindow:\n      - duration: 1w",
        "    timeWindow:\n      - duration: 1w\n        isRolling: true\n      - duration: 1w",
        (34, 9),
        "spec.timeWindow has 2 entries: give exactly one",
    ),
    (
        "slos.yaml",
        "duration: 1w",
        "duration: 1 week",
        (32, 19),
        "spec.timeWindow[0].duration='1 week' is not a duration: write a whole",
    ),
    (
        "slos.yaml",
        "duration: 1w",
        "duration: 0d",
        (32, 19),
        "spec.timeWindow[0].duration='0d' is not a duration: write a whole number",
    ),
    (
        "slos.yaml",
        "duration: 1w",
        "duration: 1W",
        (32, 19),
        "spec.timeWindow[0].duration='1W' is not a duration: write a whole number",
    ),
    (
        "slos.yaml",
        "duration: 1w",
        "duration: 7",
        (32, 19),
        "spec.timeWindow[0].duration=7 is not a duration: write a whole number",
    ),
    (
        "slos.yaml",
        "isRolling: false",
        "isRolling: no",
        (33, 20),
        "spec.timeWindow[0].isRolling='no' must be true or false, without",
    ),
    (
        "slos.yaml",
        "isRolling: false",
        "isRolling: true",
        (34, 9),
        "spec.timeWindow[0].calendar is given, and isRolling is true: leave",
    ),
    (
        "slos.yaml",
        "calendar:",
        "calender:",
        (34, 9),
        "spec.timeWindow[0].calender is not a field: did you mean calendar",
    ),
    (
        "slos.yaml",
        "2022-01-01 12:00:00",
        "2022-13-01 12:00:00",
        (35, 22),
        "spec.timeWindow[0].calendar.startTime='2022-13-01 12:00:00' is no",
    ),
    (
        "slos.yaml",
        "2022-01-01 12:00:00",
        "2022-01-01T12:00:00Z",
        (35, 22),
        "spec.timeWindow[0].calendar.startTime='2022-01-01T12:00:00Z' is no",
    ),
    (
        "slos.yaml",
        "America/New_York",
        "America/NewYork",
        (36, 21),
        "spec.timeWindow[0].calendar.timeZone='America/NewYork' is not a time",
    ),
    (
        "slos.yaml",
        "          timeZone: America/New_York\n",
        "",
        (35, 11),
        "spec.timeWindow[0].calendar.timeZone is missing: write UTC, or an",
    ),
    (
        "slos.yaml",
        "budgetingMethod: Timeslices",
        "budgetingMethod: TimeSlices",
        (37, 22),
        "spec.budgetingMethod='TimeSlices' is not known: did you mean",
    ),
    (
        "slos.yaml",
        "    budgetingMethod: Timeslices\n",
        "",
        (13, 5),
        "spec.budgetingMethod is missing: write Occurrences",
    ),
    ("slos.yaml", "op: gt", "op: '>'", (40, 13), "spec.objectives[0].op='>' is not known: use lte, gte, lt, gt"),
    (
        "slos.yaml",
        "target: 0.995",
        "target: 1",
        (41, 17),
        "spec.objectives[0].target=1 is not below 1: write a share such as",
    ),
    (
        "slos.yaml",
        "target: 0.995",
        "target: 99.5",
        (41, 17),
        "spec.objectives[0].target=99.5 is not below 1: write a share such as",
    ),
    (
        "slos.yaml",
        "target: 0.995",
        "target: -0.1",
        (41, 17),
        "spec.objectives[0].target=-0.1 is below 0: write a share such as",
    ),
    (
        "slos.yaml",
        "target: 0.995",
        "target: 99.5%",
        (41, 17),
        "spec.objectives[0].target='99.5%' must be a number: write a share",
    ),
    ("slos.yaml", "target: 0.995", "target: .nan", (41, 17), "'.nan' is not a finite number"),
    (
        "slos.yaml",
        "target: 0.995",
        "targetPercent: 100",
        (41, 24),
        "spec.objectives[0].targetPercent=100 is not below 100: write a",
    ),
    (
        "slos.yaml",
        "target: 0.995",
        "target: 0.995\n        targetPercent: 99.5",
        (42, 9),
        "spec.objectives[0] has target and targetPercent: keep one",
    ),
    (
        "slos.yaml",
        "        target: 0.995\n",
        "",
        (39, 9),
        "spec.objectives[0] has none of target, targetPercent: give one",
    ),
    (
        "slos.yaml",
        "        timeSliceTarget: 0.95\n",
        "",
        (39, 9),
        "spec.objectives[0].timeSliceTarget is missing: Timeslices needs it;",
    ),
    (
        "slos.yaml",
        "timeSliceTarget: 0.95",
        "timeSliceTarget: 95",
        (42, 26),
        "spec.objectives[0].timeSliceTarget=95 is above 1: write a share such",
    ),
    (
        "slos.yaml",
        "        timeSliceWindow: 1m\n",
        "",
        (39, 9),
        "spec.objectives[0].timeSliceWindow is missing: Timeslices needs it;",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: 60s",
        (43, 26),
        "spec.objectives[0].timeSliceWindow='60s' is not a duration: write a",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: 0",
        (43, 26),
        "spec.objectives[0].timeSliceWindow=0 is not a duration: write a whole",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: 1m\n        compositeWeight: 1\n        indicatorRef: web",
        (15, 5),
        "spec.indicator is given beside indicators of its objectives: keep one",
    ),
    (
        "slos.yaml",
        "      - displayName: Good\n        op: gt",
        "      - displayName: Good\n        op: gt\n        op: lt",
        (41, 9),
        "'op' is given twice, first on line 40: keep one",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: 1m\n    alertPolicies:\n      - alertPolicyRef: nobody",
        (45, 25),
        "spec.alertPolicies[0].alertPolicyRef='nobody' is not a known AlertPolicy",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: 1m\n    alertPolicies:\n      - kind: AlertPolicy",
        (45, 9),
        "spec.alertPolicies[0] has none of alertPolicyRef, spec: give one",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: 1m\n    alertPolicies: nobody",
        (44, 20),
        "spec.alertPolicies='nobody' must be a list: begin each entry with '- '",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "place", "words"), SPOILT)
def test_a_spoilt_target_is_refused_at_its_line(
    shared_dir: Path, name: str, old: str, new: str, place: tuple[int, int], words: str
) -> None:
    assert_refused(shared_dir, name, old, new, place, words)

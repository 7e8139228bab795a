"""Warnings of the linter, and errors beyond the specification."""

import pytest

from controlplane.core.documents.problem import Problem
from controlplane.slo.openslo.core.lint import lint
from deploy.local.process import ROOT
from tests.support.slo.openslo_files import slo

POLICY = """
  alertPolicies:
    - kind: AlertPolicy
      metadata: {{name: burns}}
      spec:
        conditions:
          - kind: AlertCondition
            metadata: {{name: burns}}
            spec: {{severity: {severity}, condition: {{kind: burnrate, op: {op}, threshold: {rate}, lookbackWindow: {window}}}}}
        notificationTargets:
          - kind: AlertNotificationTarget
            metadata: {{name: all}}
            spec: {{target: slack}}
"""
MANUAL = (ROOT / "docs/openslo.md").read_text()
WINDOWS = "    weir.slo/windows: page 1h/5m 0.02, ticket 3d/6h 0.1\n"


def linted(text: str) -> list[Problem]:
    return lint({"a.yaml": text}).problems


def without(text: str, *parts: str) -> str:
    for part in parts:
        assert part in text
        text = text.replace(part, "", 1)
    return text


def policy(severity: str = "page", op: str = "gt", rate: float = 14.4, window: str = "1h") -> str:
    return slo().rstrip("\n") + POLICY.format(severity=severity, op=op, rate=rate, window=window)


@pytest.mark.parametrize(
    ("text", "rule", "severity", "line", "words"),
    [
        (
            without(slo(), "    weir.slo/owner: serving\n"),
            "owner",
            "warning",
            4,
            "weir.slo/owner is missing: give the team",
        ),
        (
            without(slo(), "    weir.slo/runbook: https://runbooks.example.com/ttft\n"),
            "runbook",
            "warning",
            4,
            "what to do when it fires",
        ),
        (slo(value=0.3), "unit", "warning", 29, "is 0.3 ms: if seconds are meant, write unit: s"),
        (slo(value=300).replace("unit: ms", "unit: s").replace("300", "30000"), "unit", "warning", 29, "hours"),
        (slo().replace("unit: ms, ", ""), "required", "error", 22, "unit is missing: write unit: ms"),
        (slo().replace("unit: ms", "unit: minutes"), "one-of", "error", 22, "unit='minutes' is not known: use ms, s"),
        (
            slo().replace("target: 0.95", "targetPercent: 0.95"),
            "target",
            "warning",
            30,
            "write 99.9 for 99.9 % here, or a share in target",
        ),
        (slo().replace("target: 0.95", "target: 0.05"), "target", "warning", 30, "lets 95 % of requests be bad"),
        (slo().replace("target: 0.95", "target: 0"), "range", "error", 30, "requires nothing"),
        (slo().replace("30d", "1M"), "month", "warning", 24, "write 30d"),
        (slo().replace("30d", "2d"), "window", "error", 11, "an alert looks back 3d, longer than the period of 2d"),
        (
            without(slo(), "  timeWindow:\n    - duration: 30d\n      isRolling: true\n"),
            "period-assumed",
            "warning",
            13,
            "30 rolling days",
        ),
        (without(slo(), WINDOWS), "windows-assumed", "warning", 4, "the SRE workbook's are assumed"),
        (slo().replace("page 1h/5m 0.02", "page 1h 0.02"), "annotation", "error", 11, "'page 1h 0.02' is not a window"),
        (slo().replace("page 1h/5m 0.02", "page 5m/1h 0.02"), "annotation", "error", 11, "use about a twelfth"),
        (slo().replace("ttft,", "speed,"), "one-of", "error", 22, "measure='speed' is not known"),
        (slo().replace("lte", "gt"), "operator", "error", 28, "write op: lte"),
        (slo().replace("tier:", "color:"), "unknown-field", "error", 22, "scope.color is not a field"),
        (policy(), "windows-twice", "warning", 32, "is ignored, because the annotation weir.slo/windows"),
        (without(policy(op="lte"), WINDOWS), "condition", "warning", 31, "write op: gt"),
        (without(policy(rate=2000), WINDOWS), "condition", "warning", 31, "it is never reached"),
        (slo() + "---\n" + slo(), "duplicate", "error", 36, "is a second SLO of that name, first at a.yaml:5"),
        ("kind: SLO\nkind: SLI\n", "duplicate-key", "error", 2, "is given twice, first on line 1"),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(text: str, rule: str, severity: str, line: int, words: str) -> None:
    found = [problem for problem in linted(text) if problem.rule == rule]
    assert [(one.severity, one.mark.line) for one in found] == [(severity, line)], [one.text() for one in linted(text)]
    assert words in found[0].message
    assert f"| `{rule}` |" in MANUAL


def laughs() -> str:
    """A few lines that mean a thousand million values."""
    lists = ["b0: &b0 [x, x, x, x, x, x, x, x, x, x]"]
    lists += [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lists)


def test_a_good_file_has_nothing_to_correct() -> None:
    assert linted(slo()) == []


def test_windows_are_made_of_alert_policies_where_there_is_no_annotation() -> None:
    found = lint({"a.yaml": without(policy(severity="critical"), WINDOWS)})
    assert found.errors == []
    [window] = found.objectives["chat-ttft"].windows
    assert (window.severity, window.long_s, window.short_s) == ("page", 3600, 300)
    assert window.burn_rate(30 * 86_400) == pytest.approx(14.4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested more than 40 deep"),
        ("&a [*a]", "alias *a has no anchor before it"),
        (laughs(), "more than 200000 values"),
        ("a: 1" + "0" * 5_000_000, "larger than 2048 KiB"),
        ("a: \x07", "not YAML: control characters are not allowed"),
        ("? [a]\n: b", "a key is a list or a mapping"),
        ("a: !!python/object:os.system x", "tag 'tag:yaml.org,2002:python/object:os.system' is not known"),
    ],
)
def test_hostile_text_is_refused_and_does_no_harm(text: str, words: str) -> None:
    [problem] = linted(text)
    assert words in problem.message


def test_empty_text_is_no_document() -> None:
    assert lint({"a.yaml": "", "b.yaml": "# nothing\n---\n---\n"}).documents == []


def test_a_window_that_never_fires_is_reported_at_its_place() -> None:
    loose = slo().replace("target: 0.95", "target: 0.9")
    (found,) = linted(loose)
    assert (found.rule, found.severity, found.mark.line) == ("window-silent", "warning", 11)
    assert "the page window of 1 h and 5 min never fires: its threshold is a burn rate of 14.4×" in found.message
    assert "a total outage burns at 10.0×; give it a share of the budget below 0.013," in found.message
    assumed = linted(without(loose, WINDOWS))
    assert {one.rule for one in assumed} == {"windows-assumed", "window-silent"}
    assert linted(loose.replace("1h/5m 0.02", "1h/5m 0.013")) == []


def test_a_window_shorter_than_a_slice_is_reported_at_the_slice() -> None:
    sliced = (
        slo()
        .replace("budgetingMethod: Occurrences", "budgetingMethod: Timeslices")
        .replace("target: 0.95", "target: 0.95\n      timeSliceTarget: 0.9\n      timeSliceWindow: 1h")
    )
    found = [one for one in linted(sliced) if one.rule == "window-slice"]
    assert found
    assert {one.severity for one in found} == {"warning"}
    assert "shorter than a slice of 1 h: it shows only the current slice" in found[0].message
    assert not [
        one
        for one in linted(sliced.replace("timeSliceWindow: 1h", "timeSliceWindow: 1m"))
        if one.rule == "window-slice"
    ]

"""What to do about a cause is read from its page."""

from controlplane.telemetry.explain.causes import RULES
from controlplane.telemetry.query.remedies import parse, remedies


def test_each_cause_has_what_shows_it_and_steps() -> None:
    assert len(remedies()) == len(RULES)
    assert all(remedy.shown_by and remedy.steps for remedy in remedies().values())


def test_broken_lines_are_joined_and_marks_left_out() -> None:
    page = "# Causes\n\nW.\n\n## one\n\nIt is `so`,\nand so.\n- Do [this](a.md#b)\n  and that.\n- Or `that`.\n\n## two\n\nTwo.\n- No.\n"
    found = parse(page)
    assert list(found) == ["one", "two"]
    assert (found["one"].shown_by, found["one"].steps) == ("It is so, and so.", ("Do this and that.", "Or that."))

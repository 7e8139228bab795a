"""Each kind of component has its words, and its runbook a paragraph."""

from typing import get_args

from controlplane.incidents.components.core.alert import Kind
from controlplane.incidents.components.core.words import WORDS
from controlplane.telemetry.query.remedies import component_remedies


def test_every_kind_has_words_and_a_runbook_with_steps() -> None:
    assert set(WORDS) == set(get_args(Kind))
    assert {one.anchor for one in WORDS.values()} == set(component_remedies())
    assert all(one.shown_by and one.steps for one in component_remedies().values())

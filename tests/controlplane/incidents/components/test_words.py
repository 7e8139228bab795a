"""Each kind of component has its words, and its runbook a paragraph."""

from typing import get_args

from controlplane.incidents.components.core.alert import Kind
from controlplane.incidents.components.core.component_text import measured
from controlplane.incidents.components.core.words import WORDS
from controlplane.telemetry.query.remedies import component_remedies


def test_every_kind_has_words_and_a_runbook_with_steps() -> None:
    assert set(WORDS) == set(get_args(Kind))
    assert {one.anchor for one in WORDS.values()} == set(component_remedies())
    assert all(one.shown_by and one.steps for one in component_remedies().values())


def test_what_is_several_is_called_they() -> None:
    """“Policies are followed again since 02:16:04 UTC; it were not followed from …”"""
    assert {kind for kind, each in WORDS.items() if each.pronoun == "they"} == {
        "objectives",
        "policies",
        "similar",
        "spans",
    }
    burning = {"back_ns": 2_000_000_000, "since_ns": 1_000_000_000, "at_ns": 3_000_000_000}
    said = measured({"of": "policies"}, burning)
    assert said.startswith("are followed again since 00:00:02 UTC; they were not followed from 00:00:01 UTC")

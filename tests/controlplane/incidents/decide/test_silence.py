"""What a silence matches, and for how long."""

from datetime import timedelta

import pytest

from controlplane.incidents.core.silences import Matcher, Silence, Subject, matcher, silencing
from tests.support.incidents.alerts import NOW

CHAT = Subject("chat-ttft", "serving", "page", {"model": "chat-large", "tier": "premium"}, {"service": "chat"})


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("objective=chat-ttft", True),
        ("objective=chat-*", True),
        ("objective=chat", False),
        ("owner=serving", True),
        ("severity=ticket", False),
        ("model=chat-large", True),
        ("model != chat-small", True),
        ("tier!=premium", False),
        ("region=eu", False),
        ("region!=eu", True),
        ("label.service=ch?t", True),
        ("label.nothing=x", False),
        ("model=chat-[a-z]*", False),
    ],
)
def test_a_matcher(text: str, matches: bool) -> None:
    assert matcher(text).matches(CHAT) is matches


@pytest.mark.parametrize("text", ["", "model", "=x", "model=", "colour=blue", "label.=x", "model=" + "x" * 300])
def test_what_cannot_be_read_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"write NAME=VALUE|use one of"):
        matcher(text)


def test_a_silence_begins_and_ends_and_all_its_matchers_must_match() -> None:
    silence = Silence("1", (matcher("tier=premium"),), NOW, NOW + timedelta(minutes=5))
    seconds = {second: silence.covers(CHAT, NOW + timedelta(seconds=second)) for second in (-1, 0, 299, 300)}
    assert seconds == {-1: False, 0: True, 299: True, 300: False}
    ends = NOW + timedelta(minutes=5)
    assert not Silence("1", (matcher("tier=premium"), matcher("owner=search")), NOW, ends).covers(CHAT, NOW)
    assert not Silence("1", (), NOW, ends).covers(CHAT, NOW)


def test_of_several_the_one_that_lasts_longest_is_named() -> None:
    both = [Silence(str(n), (Matcher("owner", "=", "serving"),), NOW, NOW + timedelta(minutes=n)) for n in (3, 9, 5)]
    found = silencing(both, CHAT, NOW)
    assert found is not None
    assert found.id == "9"

"""A gateway that obeys something older than what is in force, or has another clock, is named."""

from controlplane.policy.observe.core.obeying import Astray, Late, Published, astray, late
from controlplane.policy.observe.core.traffic import Heard
from inference.contract.gateway_signals import GatewaySignals, Obeyed

URL, NOW_MS = "http://10.0.0.7:8080", 1_700_000_000_000


class Watched:
    """A gateway, and what is in force."""

    def __init__(self) -> None:
        self.now_ms, self.late = NOW_MS, dict[str, Late]()
        self.published = Published(Obeyed(3, 10, 7), 7)

    def hear(self, obeyed: Obeyed, after_s: float = 0, off_s: float = 0, problem: str = "") -> list[Astray]:
        self.now_ms += int(after_s * 1_000)
        signals = GatewaySignals(self.now_ms + int(off_s * 1_000), NOW_MS, "gw-1", "eu", 0, 0.0, obeyed)
        heard = [Heard(URL, self.now_ms, signals, problem=problem)]
        self.late = late(self.late, heard, self.published, self.now_ms)
        return list(astray(heard, self.late, self.now_ms))


def test_a_gateway_that_obeys_an_older_overlay_is_named() -> None:
    watched = Watched()
    assert watched.hear(Obeyed(3, 10, 6)) == []
    assert watched.hear(Obeyed(3, 10, 6), after_s=119) == []
    text = f"gw-1 at {URL} obeys overlay 6 and not 7, for 2 min by now."
    assert watched.hear(Obeyed(3, 10, 6), after_s=1) == [Astray(URL, text, "page")]
    assert watched.hear(Obeyed(3, 10, 7)) == []


def test_a_clock_that_is_set_back_delays_that_by_no_more_than_it_takes() -> None:
    watched = Watched()
    watched.hear(Obeyed(3, 10, 6))
    watched.hear(Obeyed(3, 10, 6), after_s=-3_600)
    assert "for 2 min by now" in watched.hear(Obeyed(3, 10, 6), after_s=120)[0].text


def test_one_that_ends_an_overlay_by_a_clock_of_its_own_is_named_with_its_clock() -> None:
    watched = Watched()
    watched.hear(Obeyed(3, 10, 0), off_s=400)
    [said] = watched.hear(Obeyed(3, 10, 0), after_s=120, off_s=400)
    assert "obeys overlay none and not 7" in said.text
    assert said.text.endswith(f"The clock of gw-1 at {URL} is 7 min ahead of the controller's: overlays end by it.")
    assert [each.severity for each in watched.hear(Obeyed(3, 10, 7), off_s=-11)] == ["ticket"]


def test_one_that_keeps_an_overlay_that_has_ended_is_named() -> None:
    watched = Watched()
    watched.published = Published(Obeyed(3, 10, 0), 7)
    watched.hear(Obeyed(3, 10, 7))
    assert "overlay 7 and not none" in watched.hear(Obeyed(3, 10, 7), after_s=120)[0].text


def test_one_that_keeps_up_with_what_changes_all_the_time_is_not() -> None:
    watched = Watched()
    for endpoints in range(10, 200):
        watched.published = Published(Obeyed(3, endpoints, 7), 7)
        assert watched.hear(Obeyed(3, endpoints - 1, 7), after_s=5) == []
    for _ in range(30):  # and one that is stuck is, however often things change
        watched.published = Published(Obeyed(3, watched.published.obeyed.endpoints_version + 1, 7), 7)
        said = watched.hear(Obeyed(3, 100, 7), after_s=5)
    assert said[0].text.startswith(f"gw-1 at {URL} obeys version 100 of the endpoints")


def test_a_silent_one_is_not_named_twice() -> None:
    watched = Watched()
    watched.hear(Obeyed(2, 10, 7))
    assert watched.hear(Obeyed(2, 10, 7), after_s=300, problem="it does not answer") == []

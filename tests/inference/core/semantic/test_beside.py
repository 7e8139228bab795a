"""Whether it pays to begin an inference beside a look-up."""

from inference.core.semantic.beside import MIN_SEEN, OVER, HitShare


def test_it_pays_once_most_look_ups_are_known_to_be_misses_and_no_longer_than_they_are() -> None:
    share = HitShare()
    for number in range(MIN_SEEN):
        assert not share.pays
        share.add(number % 4 == 0)
    assert share.pays and round(share.share, 9) == 0.25
    for _ in range(OVER):
        share.add(True)
    assert not share.pays
    for _ in range(OVER):
        share.add(False)
    assert share.pays

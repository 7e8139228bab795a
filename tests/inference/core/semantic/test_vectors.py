"""Vectors: what is stored gives the cosine again, and another embedder is noticed."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.semantic.vectors import CANARY_EVERY, Canary, pack, similarity, unit


def floats(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


@given(st.lists(st.floats(-10, 10, width=32), min_size=2, max_size=32))
def test_a_stored_vector_gives_the_cosine(numbers: list[float]) -> None:
    vector = unit(floats(*numbers))
    if vector is None:
        assert not math.hypot(*numbers) or math.hypot(*numbers) < 1e-6
        return
    assert similarity(vector, pack(vector)) == pytest.approx(1, abs=2e-3)
    assert similarity([-number for number in vector], pack(vector)) == pytest.approx(-1, abs=2e-3)


@pytest.mark.parametrize(
    "broken", [b"", b"abc", floats(0, 0), floats(math.nan, 1), floats(math.inf, 1), floats(*[1] * 8193)]
)
def test_what_has_no_direction_is_no_vector(broken: bytes) -> None:
    assert unit(broken) is None
    assert unit(floats(*[1] * 8192)) is not None


def test_vectors_of_other_lengths_are_not_alike() -> None:
    assert similarity((1.0, 0.0), pack((1.0, 0.0, 0.0))) == -1


def test_the_canary_goes_along_with_the_first_embedding_now_and_then_and_after_a_failure() -> None:
    canary = Canary()
    due = [canary.due() for _ in range(2 * CANARY_EVERY + 1)]
    assert [number for number, it in enumerate(due) if it] == [0, CANARY_EVERY, 2 * CANARY_EVERY]
    canary = Canary()
    assert canary.due()
    canary.again()
    assert canary.due()
    assert not canary.due()
